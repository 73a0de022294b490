// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/gguf_model.h"
#include "formats/inspect.h"
#include "formats/test_files.h"

namespace peng::formats {
namespace {

constexpr uint32_t kF32 = 0, kQ4_0 = 2;

GgufBuilder Good() {
  GgufBuilder b;
  b.keys = {GgufText("general.architecture", "llama"), GgufU32("llama.block_count", 2),
            GgufKey("tokens", 9, Bytes<uint32_t>(8) + Bytes<uint64_t>(2) + GgufString("a") + GgufString("b"))};
  b.tensors = {GgufTensorRow("x", {32, 2}, kF32, 0), GgufTensorRow("y", {64}, kQ4_0, 256)};
  b.data = std::string(256 + 36, '\1');
  return b;
}

// The error of opening `bytes`, empty if there is none. Anything but a base::Error of a model file escapes.
std::string ErrorOf(const std::string& bytes) {
  try {
    GgufFile("m.gguf", std::as_bytes(std::span(bytes)));
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModelFile);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

TEST(Gguf, ReadsWhatWasWritten) {
  const std::string bytes = Good().Build();
  const GgufFile file("m.gguf", std::as_bytes(std::span(bytes)));
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.String("general.architecture"), "llama");
  EXPECT_EQ(file.Int("llama.block_count", 1, 10), 2);
  EXPECT_EQ(file.Strings("tokens"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.Int("absent", 0, 1), std::nullopt);
  ASSERT_EQ(file.tensors().size(), 2u);
  const GgufTensor* y = file.FindTensor("y");
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(y->format, tensor::Format::kQ4_0);
  EXPECT_EQ(y->bytes, 36u);
  EXPECT_EQ(y->offset + y->bytes, bytes.size());
  EXPECT_EQ(file.FindTensor("z"), nullptr);
}

TEST(Gguf, ReadsEveryValueType) {
  GgufBuilder b;
  b.keys = {
      GgufKey("u8", 0, Bytes<uint8_t>(200)),
      GgufKey("i8", 1, Bytes<int8_t>(-3)),
      GgufKey("u16", 2, Bytes<uint16_t>(60000)),
      GgufKey("i16", 3, Bytes<int16_t>(-300)),
      GgufKey("u32", 4, Bytes<uint32_t>(1u << 31)),
      GgufKey("i32", 5, Bytes<int32_t>(-70000)),
      GgufKey("f32", 6, Bytes(0.5f)),
      GgufKey("bool", 7, Bytes<uint8_t>(1)),
      GgufKey("u64", 10, Bytes<uint64_t>(1ull << 40)),
      GgufKey("i64", 11, Bytes<int64_t>(-5)),
      GgufKey("f64", 12, Bytes(0.25)),
      GgufKey("ints", 9, Bytes<uint32_t>(5) + Bytes<uint64_t>(2) + Bytes<int32_t>(-1) + Bytes<int32_t>(7)),
      GgufKey("floats", 9, Bytes<uint32_t>(6) + Bytes<uint64_t>(1) + Bytes(1.5f)),
      GgufKey("nested", 9, Bytes<uint32_t>(9) + Bytes<uint64_t>(1) + Bytes<uint32_t>(0) + Bytes<uint64_t>(1) + "x")};
  const std::string bytes = b.Build();
  const GgufFile file("m.gguf", std::as_bytes(std::span(bytes)));
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(file.Int("u8", kMin, kMax), 200);
  EXPECT_EQ(file.Int("i8", kMin, kMax), -3);
  EXPECT_EQ(file.Int("u16", kMin, kMax), 60000);
  EXPECT_EQ(file.Int("i16", kMin, kMax), -300);
  EXPECT_EQ(file.Int("u32", kMin, kMax), int64_t{1} << 31);
  EXPECT_EQ(file.Int("i32", kMin, kMax), -70000);
  EXPECT_EQ(file.Int("u64", kMin, kMax), int64_t{1} << 40);
  EXPECT_EQ(file.Int("i64", kMin, kMax), -5);
  EXPECT_EQ(file.Float("f32"), 0.5);
  EXPECT_EQ(file.Float("f64"), 0.25);
  EXPECT_EQ(file.Float("i8"), -3.0);
  EXPECT_EQ(file.Bool("bool"), true);
  EXPECT_EQ(file.Ints("ints"), (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(file.Floats("floats"), (std::vector<float>{1.5f}));
  EXPECT_THROW(file.Int("f32", 0, 1), base::Error);
  EXPECT_THROW(file.Int("u8", 0, 199), base::Error);
  EXPECT_THROW(file.String("u8"), base::Error);
  EXPECT_THROW(file.Strings("ints"), base::Error);
  EXPECT_THROW(file.Ints("floats"), base::Error);
}

struct Fault {
  const char* name;
  std::string bytes;
  const char* expected;  // part of the message
};

template <typename F>
std::string Changed(F&& change) {
  GgufBuilder b = Good();
  change(b);
  return b.Build();
}

std::vector<Fault> Faults() {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const auto tensor = [](const std::string& row) { return Changed([&](GgufBuilder& b) { b.tensors[1] = row; }); };
  const auto key = [](const std::string& k) { return Changed([&](GgufBuilder& b) { b.keys[2] = k; }); };
  return {
      {"empty", "", "magic number"},
      {"other magic", Changed([](auto& b) { b.magic = "GGML"; }), "not a GGUF file"},
      {"version 1", Changed([](auto& b) { b.version = 1; }), "version 1"},
      {"big-endian", Changed([](auto& b) { b.version = 3u << 24; }), "big-endian"},
      {"tensor count near 2^63 / row size", Changed([](auto& b) { b.num_tensors = kHuge / 300; }), "tensor count"},
      {"metadata count 2^62", Changed([](auto& b) { b.num_keys = int64_t{1} << 62; }), "metadata count"},
      {"string of 2^60 bytes", key(GgufKey("s", 8, Bytes<uint64_t>(uint64_t{1} << 60))), "\"s\""},
      {"key of 2^64 - 1 bytes", key(Bytes<uint64_t>(~uint64_t{0})), "metadata key"},
      {"array of 2^40 elements", key(GgufKey("a", 9, Bytes<uint32_t>(4) + Bytes<uint64_t>(uint64_t{1} << 40))),
       "1099511627776 elements"},
      {"array of 2^61 + 1 elements of 8 bytes",
       key(GgufKey("a", 9, Bytes<uint32_t>(10) + Bytes<uint64_t>((uint64_t{1} << 61) + 1))), "\"a\""},
      {"array of unknown type", key(GgufKey("a", 9, Bytes<uint32_t>(77) + Bytes<uint64_t>(1))), "value type 77"},
      {"nested deeply",
       key(GgufKey("a", 9,
                   [] {
                     std::string value;
                     for (int i = 0; i < 40; ++i) value += Bytes<uint32_t>(9) + Bytes<uint64_t>(1);
                     return value;
                   }())),
       "nested too deeply"},
      {"unknown value type", key(GgufKey("k", 13, "")), "value type 13"},
      {"duplicate key", key(GgufU32("llama.block_count", 3)), "occurs twice"},
      {"alignment 0", key(GgufU32("general.alignment", 0)), "general.alignment"},
      {"alignment 24", key(GgufU32("general.alignment", 24)), "power of two"},
      {"alignment 2^31", key(GgufU32("general.alignment", 1u << 31)), "general.alignment"},
      {"alignment as string", key(GgufText("general.alignment", "32")), "must be an integer"},
      {"no dimensions", tensor(GgufTensorRow("y", {}, kF32, 0)), "0 dimensions"},
      {"five dimensions", tensor(GgufTensorRow("y", {1, 1, 1, 1, 1}, kF32, 256)), "5 dimensions"},
      {"dimension 0", tensor(GgufTensorRow("y", {32, 0}, kF32, 256)), "size 0"},
      {"negative dimension", tensor(GgufTensorRow("y", {-32}, kF32, 256)), "size -32"},
      {"product overflows", tensor(GgufTensorRow("y", {kHuge, 2, 1, 1}, kF32, 256)), "overflows"},
      {"2^62 floats", tensor(GgufTensorRow("y", {int64_t{1} << 62}, kF32, 256)), "\"y\""},
      {"SIZE_MAX / 4 floats", tensor(GgufTensorRow("y", {kHuge / 2}, kF32, 256)), "\"y\""},
      {"negative type", tensor(GgufTensorRow("y", {32}, static_cast<uint32_t>(-1), 256)), "type id -1"},
      {"removed type", tensor(GgufTensorRow("y", {32}, 4, 256)), "type id 4"},
      {"half a block", tensor(GgufTensorRow("y", {48}, kQ4_0, 256)), "multiple of 32"},
      {"offset past the end", tensor(GgufTensorRow("y", {64}, kQ4_0, 1 << 20)), "offset 1048576"},
      {"offset that wraps around", tensor(GgufTensorRow("y", {64}, kQ4_0, ~uint64_t{31})), "\"y\""},
      {"offset not aligned", tensor(GgufTensorRow("y", {64}, kQ4_0, 257)), "multiple of 32"},
      {"tensors overlap", tensor(GgufTensorRow("y", {64}, kQ4_0, 224)), "overlap"},
      {"duplicate tensor", tensor(GgufTensorRow("x", {64}, kQ4_0, 256)), "occurs twice"},
      {"long tensor name", tensor(GgufTensorRow(std::string(5000, 'n'), {64}, kQ4_0, 256)), "tensor name"},
      {"data cut", Good().Build().substr(0, Good().Build().size() - 1), "\"y\""},
      {"joined with cat", Good().Build() + std::string(28, '\0') + Good().Build(), "second GGUF header"},
  };
}

TEST(Gguf, RefusesDamageWithOneLineThatNamesIt) {
  for (const Fault& fault : Faults()) {
    const std::string error = ErrorOf(fault.bytes);
    EXPECT_NE(error.find("m.gguf"), std::string::npos) << fault.name << ": " << error;
    EXPECT_NE(error.find(fault.expected), std::string::npos) << fault.name << ": " << error;
  }
}

TEST(Gguf, RefusesEveryTruncation) {
  const std::string whole = Good().Build();
  EXPECT_EQ(ErrorOf(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(ErrorOf(whole.substr(0, size)), "") << "cut to " << size << " of " << whole.size() << " bytes";
  }
}

TEST(Gguf, ControlBytesOfNamesDoNotReachTheTerminal) {
  const std::string error =
      ErrorOf(Changed([](auto& b) { b.tensors[1] = GgufTensorRow("y\x1b[2J\n", {64}, kQ4_0, 1 << 20); }));
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

TEST(Gguf, Version2IsRead) {
  const std::string bytes = Changed([](auto& b) { b.version = 2; });
  const GgufFile file("m.gguf", std::as_bytes(std::span(bytes)));
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.Int("llama.block_count", 1, 10), 2);
  ASSERT_NE(file.FindTensor("y"), nullptr);
  EXPECT_EQ(file.FindTensor("y")->bytes, 36u);
}

TEST(Gguf, TypesOfOthersAreListedAndRefusedByNameWhenWanted) {
  struct Other {
    uint32_t id;
    const char* name;
    size_t block_values, block_bytes;
  };
  for (const Other& other : {Other{16, "IQ2_XXS", 256, 66}, Other{17, "IQ2_XS", 256, 74}, Other{18, "IQ3_XXS", 256, 98},
                             Other{19, "IQ1_S", 256, 50}, Other{21, "IQ3_S", 256, 110}, Other{22, "IQ2_S", 256, 82},
                             Other{29, "IQ1_M", 256, 56}, Other{39, "MXFP4", 32, 17}}) {
    const TestFolder folder;
    GgufBuilder b;
    b.keys = {GgufText("general.architecture", "llama")};
    b.tensors = {GgufTensorRow("w", {static_cast<int64_t>(other.block_values)}, other.id, 0)};
    b.data = std::string(other.block_bytes, '\0');
    const std::string path = folder.Write("m.gguf", b.Build());
    const Checkpoint checkpoint = OpenCheckpoint(path);
    EXPECT_EQ(checkpoint.weights->Names(), std::vector<std::string>{"w"});
    try {
      checkpoint.weights->Find("w");
      ADD_FAILURE() << other.name << " is not refused";
    } catch (const base::Error& error) {
      EXPECT_NE(std::string(error.what()).find(other.name), std::string::npos) << error.what();
    }
    const Inspection inspection = Inspect(path);
    ASSERT_EQ(inspection.tensors.size(), 1u);
    EXPECT_EQ(inspection.tensors[0].format, other.name);
    EXPECT_FALSE(inspection.tensors[0].supported);
  }
}

// Three parts with one tensor each.
struct SplitModel {
  static std::string Part(uint16_t number, uint16_t count) {
    GgufBuilder b;
    b.keys = {GgufKey("split.no", 2, Bytes(number)), GgufKey("split.count", 2, Bytes(count)),
              GgufKey("split.tensors.count", 5, Bytes<int32_t>(3))};
    if (number == 0) b.keys.push_back(GgufText("general.architecture", "llama"));
    b.tensors = {GgufTensorRow("t" + std::to_string(number), {8}, kF32, 0)};
    b.data = Bytes(static_cast<float>(number)) + std::string(28, '\0');
    return b.Build();
  }
  static std::string Name(int number, int count = 3) {
    return "m-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) + ".gguf";
  }
  SplitModel() {
    for (uint16_t i = 0; i < 3; ++i) folder.Write(Name(i + 1), Part(i, 3));
  }
  // The error of opening part `number`.
  std::string ErrorOfPart(int number) const {
    try {
      OpenCheckpoint(folder.path() + "/" + Name(number));
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  }
  TestFolder folder;
};

TEST(GgufSplit, FindsTheOtherParts) {
  const SplitModel model;
  const Checkpoint checkpoint = OpenCheckpoint(model.folder.path() + "/" + SplitModel::Name(1));
  EXPECT_EQ(checkpoint.weights->Names(), (std::vector<std::string>{"t0", "t1", "t2"}));
  const tensor::Weight w = checkpoint.weights->Load("t2");
  float values[8];
  tensor::DecodeRow(w, 0, values);
  EXPECT_EQ(values[0], 2.0f);
}

TEST(GgufSplit, RefusesWhatIsNotTheWholeModel) {
  {
    const SplitModel model;
    EXPECT_NE(model.ErrorOfPart(2).find("part 2 of 3 of a split model; open m-00001-of-00003.gguf"), std::string::npos)
        << model.ErrorOfPart(2);
  }
  {
    const SplitModel model;
    std::filesystem::remove(model.folder.path() + "/" + SplitModel::Name(2));
    EXPECT_NE(model.ErrorOfPart(1).find("m-00002-of-00003.gguf: is missing"), std::string::npos)
        << model.ErrorOfPart(1);
  }
  {
    const SplitModel model;  // two parts changed places
    model.folder.Write(SplitModel::Name(2), SplitModel::Part(2, 3));
    EXPECT_NE(model.ErrorOfPart(1).find("is part 3 of 3 of a split model, expected part 2 of 3"), std::string::npos);
  }
  {
    const SplitModel model;  // a part of another split
    model.folder.Write(SplitModel::Name(3), SplitModel::Part(2, 4));
    EXPECT_NE(model.ErrorOfPart(1).find("expected part 3 of 3"), std::string::npos);
  }
  {
    const SplitModel model;
    const std::string renamed = model.folder.Write("other.gguf", SplitModel::Part(0, 3));
    EXPECT_THROW(OpenCheckpoint(renamed), base::Error);
  }
  {
    const SplitModel model;
    const std::string last = SplitModel::Part(2, 3);
    model.folder.Write(SplitModel::Name(3), last.substr(0, last.size() - 8));
    EXPECT_NE(model.ErrorOfPart(1).find("m-00003-of-00003.gguf"), std::string::npos);
  }
  {
    const SplitModel model;
    model.folder.Write(SplitModel::Name(1), SplitModel::Part(0, 3) + SplitModel::Part(1, 3) + SplitModel::Part(2, 3));
    EXPECT_NE(model.ErrorOfPart(1).find("not joined with cat"), std::string::npos) << model.ErrorOfPart(1);
  }
}

TEST(GgufConfig, TranslatesKeys) {
  const TestFolder folder;
  GgufBuilder b;
  b.keys = {GgufText("general.architecture", "llama"),
            GgufU32("llama.block_count", 2),
            GgufU32("llama.embedding_length", 64),
            GgufU32("llama.feed_forward_length", 128),
            GgufU32("llama.attention.head_count", 4),
            GgufKey("llama.attention.head_count_kv", 9,
                    Bytes<uint32_t>(4) + Bytes<uint64_t>(2) + Bytes<uint32_t>(2) + Bytes<uint32_t>(2)),
            GgufU32("llama.attention.key_length", 32),
            GgufU32("llama.rope.dimension_count", 16),
            GgufKey("llama.rope.freq_base", 6, Bytes(5e5f)),
            GgufText("llama.rope.scaling.type", "linear"),
            GgufKey("llama.rope.scaling.factor", 6, Bytes(4.0f)),
            GgufKey("llama.attention.layer_norm_rms_epsilon", 6, Bytes(1e-5f)),
            GgufU32("llama.context_length", 4096),
            GgufU32("tokenizer.ggml.eos_token_id", 7),
            GgufU32("tokenizer.ggml.bos_token_id", ~0u),
            GgufKey("tokenizer.ggml.add_bos_token", 7, Bytes<uint8_t>(0))};
  b.tensors = {GgufTensorRow("token_embd.weight", {64, 10}, kF32, 0)};
  b.data = std::string(64 * 10 * 4, '\0');
  const Checkpoint checkpoint = OpenCheckpoint(folder.Write("m.gguf", b.Build()));
  const ModelConfig& c = checkpoint.config;
  EXPECT_EQ(c.Architecture(), "LlamaForCausalLM");
  EXPECT_EQ(c.Int("num_hidden_layers", 1, 9), 2);
  EXPECT_EQ(c.Int("hidden_size", 1, 99), 64);
  EXPECT_EQ(c.Int("intermediate_size", 1, 999), 128);
  EXPECT_EQ(c.Int("num_attention_heads", 1, 9), 4);
  EXPECT_EQ(c.Int("num_key_value_heads", 1, 9), 2);
  EXPECT_EQ(c.Int("head_dim", 1, 99), 32);
  EXPECT_EQ(c.Float("partial_rotary_factor"), 0.5);
  EXPECT_EQ(c.Float("rope_theta"), 5e5);
  EXPECT_EQ(c.Object("rope_scaling")->String("rope_type"), "linear");
  EXPECT_EQ(c.Object("rope_scaling")->Float("factor"), 4.0);
  EXPECT_NEAR(c.Float("rms_norm_eps"), 1e-5, 1e-11);
  EXPECT_EQ(c.Int("max_position_embeddings", 1, 9999), 4096);
  EXPECT_EQ(c.Int("vocab_size", 1, 99), 10);
  EXPECT_TRUE(c.Bool("tie_word_embeddings", false));
  const auto refusal = [](auto&& get) -> std::string {
    try {
      get();
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  // Refusals name the file's keys.
  EXPECT_NE(refusal([&] { c.Int("num_hidden_layers", 5, 9); }).find("m.gguf: \"llama.block_count\" is 2"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              c.Object("rope_scaling")->Float("beta_fast");
            }).find("\"llama.rope.scaling.yarn_beta_fast\" is missing"),
            std::string::npos);
  EXPECT_EQ(checkpoint.eos_token_ids, std::vector<int32_t>{7});
  EXPECT_EQ(checkpoint.tokenizer.bos_id, std::nullopt);
  EXPECT_EQ(checkpoint.tokenizer.add_bos, false);
}

TEST(GgufConfig, RefusesLayersThatDiffer) {
  const TestFolder folder;
  GgufBuilder b;
  b.keys = {GgufText("general.architecture", "llama"),
            GgufKey("llama.feed_forward_length", 9,
                    Bytes<uint32_t>(4) + Bytes<uint64_t>(2) + Bytes<uint32_t>(2) + Bytes<uint32_t>(3))};
  const std::string path = folder.Write("m.gguf", b.Build());
  EXPECT_THROW(OpenCheckpoint(path), base::Error);
}

TEST(GgufModel, ReadsAGoldenFile) {
  const Checkpoint checkpoint = OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/gguf/llama_gqa-Q4_0.gguf");
  EXPECT_EQ(checkpoint.weights->naming(), Naming::kGguf);
  EXPECT_EQ(checkpoint.config.Int("vocab_size", 1, 9999), 512);
  EXPECT_FALSE(checkpoint.config.Bool("tie_word_embeddings", true));
  EXPECT_EQ(checkpoint.tokenizer.model, "gpt2");
  EXPECT_EQ(checkpoint.tokenizer.tokens.size(), 512u);
  EXPECT_EQ(checkpoint.tokenizer.token_types.size(), 512u);
  EXPECT_FALSE(checkpoint.tokenizer.merges.empty());
  EXPECT_EQ(checkpoint.tokenizer.add_bos, true);
  EXPECT_EQ(checkpoint.eos_token_ids, std::vector<int32_t>{1});
  ASSERT_TRUE(checkpoint.chat_template.has_value());
  EXPECT_NE(checkpoint.chat_template->find("messages"), std::string::npos);

  const Inspection inspection = Inspect(PENG_SOURCE_DIR "/tests/data/gguf/llama_gqa-Q4_0.gguf");
  EXPECT_EQ(inspection.kind, "GGUF v3");
  for (const Inspection::Metadata& entry : inspection.metadata) {
    if (entry.key == "llama.block_count") {
      EXPECT_EQ(entry.value, base::Json(2)) << entry.value.Dump();
    }
    if (entry.key != "tokenizer.ggml.tokens") continue;
    EXPECT_EQ(entry.length, 512);
    EXPECT_EQ(entry.value.as_array().size(), size_t{Inspection::kMaxItems});
  }
  EXPECT_EQ(inspection.tensors.size(), checkpoint.weights->Names().size());
  EXPECT_EQ(inspection.tensor_bytes, checkpoint.weights->TotalBytes());
}

}  // namespace
}  // namespace peng::formats
