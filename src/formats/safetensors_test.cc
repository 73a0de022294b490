// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/inspect.h"
#include "formats/test_files.h"

namespace peng::formats {
namespace {

std::string ErrorOf(const std::string& bytes) {
  try {
    ParseSafetensors("m.safetensors", std::as_bytes(std::span(bytes)));
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModelFile);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

// The error of opening a model, empty if it opens.
std::string OpenError(const std::string& path) {
  try {
    OpenCheckpoint(path);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModelFile);
    return error.what();
  }
  return "";
}

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& at) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + at + "]}";
}

const std::string kA = Entry("a", "F32", "2,3", "0,24");
const std::string kB = Entry("b", "BF16", "4", "24,32");
const std::string kData(32, '\0');

TEST(Safetensors, ReadsWhatWasWritten) {
  const std::string bytes = SafetensorsBytes("{" + kB + "," + kA + ",\"__metadata__\":{\"format\":\"pt\"}}   ", kData);
  const SafetensorsHeader header = ParseSafetensors("m", std::as_bytes(std::span(bytes)));
  ASSERT_EQ(header.entries.size(), 2u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.entries[1].format, tensor::Format::kBF16);
  EXPECT_EQ(header.entries[1].offset + header.entries[1].bytes, bytes.size());
  EXPECT_EQ(header.metadata.size(), 1u);
}

TEST(Safetensors, ReadsScalarsAndEmptyTensors) {
  const std::string header = "{" + Entry("s", "F32", "", "0,4") + "," + Entry("e", "F32", "0,5", "4,4") + "," +
                             Entry("i", "I64", "1", "4,12") + "}";
  EXPECT_EQ(ErrorOf(SafetensorsBytes(header, std::string(12, '\0'))), "");
}

struct Fault {
  const char* name;
  std::string bytes;
  const char* expected;
};

std::vector<Fault> Faults() {
  const auto with = [](const std::string& entry) { return SafetensorsBytes("{" + kA + "," + entry + "}", kData); };
  return {
      {"empty", "", "too short"},
      {"header length 2^63", Bytes<uint64_t>(uint64_t{1} << 63) + "{}", "9223372036854775808 bytes"},
      {"header above the cap", Bytes<uint64_t>(100'000'001) + "{}", "at most 100000000"},
      {"header past the end", Bytes<uint64_t>(100) + "{}", "100 bytes"},
      {"no JSON", SafetensorsBytes("{\"a\":", ""), "not valid JSON at byte"},
      {"no object", SafetensorsBytes("[]", ""), "not a JSON object"},
      {"nested deeply", SafetensorsBytes(std::string(100000, '['), ""), "JSON"},
      {"duplicate key", SafetensorsBytes("{" + kA + "," + kA + "}", kData.substr(0, 24)), "JSON"},
      {"entry is no object", with("\"b\":3"), "\"b\""},
      {"no dtype", with("\"b\":{\"shape\":[4],\"data_offsets\":[24,32]}"), "dtype"},
      {"unknown dtype", with(Entry("b", "Q9", "4", "24,32")), "unknown dtype \"Q9\""},
      {"no shape", with("\"b\":{\"dtype\":\"F16\",\"data_offsets\":[24,32]}"), "shape"},
      {"negative size", with(Entry("b", "BF16", "-4", "24,32")), "shape"},
      {"fractional size", with(Entry("b", "BF16", "4.5", "24,32")), "shape"},
      {"size above 2^63", with(Entry("b", "BF16", "18446744073709551615", "24,32")), "shape"},
      {"product overflows", with(Entry("b", "BF16", "4611686018427387904,4", "24,32")), "overflows"},
      {"three offsets", with(Entry("b", "BF16", "4", "24,32,40")), "data_offsets"},
      {"offsets in reverse", with(Entry("b", "BF16", "4", "32,24")), "data_offsets [32, 24)"},
      {"offset past the end", with(Entry("b", "BF16", "4", "32,40")), "data_offsets [32, 40)"},
      {"negative offset", with(Entry("b", "BF16", "4", "-8,0")), "data_offsets"},
      {"size and offsets disagree", with(Entry("b", "BF16", "3", "24,32")), "make 6 bytes"},
      {"half a byte", with(Entry("b", "F4", "17", "24,32")), "bytes"},
      {"overlap", with(Entry("b", "BF16", "8", "16,32")), "overlaps"},
      {"gap", SafetensorsBytes("{" + kA + "," + Entry("b", "BF16", "2", "28,32") + "}", kData), "gap of 4"},
      {"gap at the start", SafetensorsBytes("{" + Entry("b", "BF16", "4", "24,32") + "}", kData), "gap of 24"},
      {"bytes behind", SafetensorsBytes("{" + kA + "}", kData), "8 bytes behind"},
      {"data cut", SafetensorsBytes("{" + kA + "," + kB + "}", kData.substr(1)), "\"b\""},
      {"metadata is a number", SafetensorsBytes("{\"__metadata__\":1}", ""), "__metadata__"},
  };
}

TEST(Safetensors, RefusesDamageWithOneLineThatNamesIt) {
  for (const Fault& fault : Faults()) {
    const std::string error = ErrorOf(fault.bytes);
    EXPECT_NE(error.find("m.safetensors"), std::string::npos) << fault.name << ": " << error;
    EXPECT_NE(error.find(fault.expected), std::string::npos) << fault.name << ": " << error;
  }
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string whole = SafetensorsBytes("{" + kA + "," + kB + "}", kData);
  EXPECT_EQ(ErrorOf(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(ErrorOf(whole.substr(0, size)), "") << size;
}

// Two shards with one tensor each, and an index.
struct ShardedModel {
  ShardedModel() {
    folder.Write("config.json", "{}");
    folder.Write("s1.safetensors", SafetensorsBytes("{" + Entry("a", "F32", "2", "0,8") + "}", std::string(8, '\0')));
    folder.Write("s2.safetensors", SafetensorsBytes("{" + Entry("b", "F32", "1", "0,4") + "}", std::string(4, '\0')));
    Index(R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  }
  void Index(const std::string& weight_map) const {
    folder.Write("model.safetensors.index.json", "{\"weight_map\":" + weight_map + "}");
  }
  std::string Error() const { return OpenError(folder.path()); }
  TestFolder folder;
};

TEST(SafetensorsFolder, OpensShards) {
  const ShardedModel model;
  const Checkpoint checkpoint = OpenCheckpoint(model.folder.path());
  EXPECT_EQ(checkpoint.weights->Names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(checkpoint.weights->TotalBytes(), 12);
}

TEST(SafetensorsFolder, RefusesAnIndexThatDisagrees) {
  const ShardedModel model;
  const std::pair<const char*, const char*> faults[] = {
      {R"({"a":"s1.safetensors","c":"s2.safetensors"})", "s2.safetensors: has no tensor \"c\""},
      {R"({"a":"s1.safetensors","b":"s1.safetensors"})", "s1.safetensors: has no tensor \"b\""},
      {R"({"a":"s1.safetensors","b":"s3.safetensors"})", "1 of 2 shards are missing: s3.safetensors"},
      {R"({"a":"../s1.safetensors"})", "../s1.safetensors"},
      {R"({"a":"/etc/passwd"})", "/etc/passwd"},
      {R"({"a":"..\\s1.safetensors"})", "same folder"},
      {R"({"a":"s1.bin"})", "s1.bin"},
      {R"({"a":7})", "no file name"},
      {R"([])", "weight_map"},
  };
  for (const auto& [weight_map, expected] : faults) {
    model.Index(weight_map);
    EXPECT_NE(model.Error().find(expected), std::string::npos) << weight_map << ": " << model.Error();
  }
  model.folder.Write("model.safetensors.index.json", "{\"weight_map\":");
  EXPECT_NE(model.Error().find("not valid JSON"), std::string::npos) << model.Error();
}

TEST(SafetensorsFolder, RefusesATruncatedShard) {
  const ShardedModel model;
  model.folder.Write("s2.safetensors", SafetensorsBytes("{" + Entry("b", "F32", "1", "0,4") + "}", "123"));
  EXPECT_NE(model.Error().find("s2.safetensors: tensor \"b\""), std::string::npos) << model.Error();
}

TEST(SafetensorsFolder, SaysWhatIsMissing) {
  const TestFolder folder;
  EXPECT_NE(OpenError(folder.path()).find("has no config.json"), std::string::npos);
  folder.Write("config.json", "{}");
  EXPECT_NE(OpenError(folder.path()).find("has no .safetensors file"), std::string::npos);
  EXPECT_NE(OpenError(folder.path() + "/nothing").find("no such file or folder"), std::string::npos);
  EXPECT_NE(OpenError(folder.Write("m.bin", "x")).find("is no model file"), std::string::npos);
}

TEST(Slices, ReadOnlyTheirPart) {
  const Checkpoint checkpoint = OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/models/llama_gqa");
  const char kName[] = "model.layers.0.mlp.up_proj.weight";
  const tensor::Weight whole = checkpoint.weights->Load(kName);
  const tensor::Weight rows = checkpoint.weights->Load(kName, Slice{0, 64, 128});
  const tensor::Weight cols = checkpoint.weights->Load(kName, Slice{1, 32, 96});
  ASSERT_EQ(rows.rows, 64);
  ASSERT_EQ(cols.cols, 64);
  std::vector<float> row(whole.cols), part(whole.cols);
  tensor::DecodeRow(whole, 65, row.data());
  tensor::DecodeRow(rows, 1, part.data());
  EXPECT_EQ(row, part);
  tensor::DecodeRow(cols, 65, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.begin() + 64, row.begin() + 32));
  EXPECT_THROW(checkpoint.weights->Load(kName, Slice{0, 0, 100000}), base::Error);
  EXPECT_THROW(checkpoint.weights->Load("absent"), base::Error);

  const Checkpoint gguf = OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/gguf/llama_gqa-Q4_0.gguf");
  const tensor::Weight quantized = gguf.weights->Load("blk.0.ffn_up.weight", Slice{1, 32, 96});
  EXPECT_EQ(quantized.planes[0].row_bytes, 2 * 18);
  EXPECT_EQ(quantized.planes[0].stride_bytes, 8 * 18);
  EXPECT_THROW(gguf.weights->Load("blk.0.ffn_up.weight", Slice{1, 16, 96}), base::Error);
}

TEST(Release, PagesComeBackWhenTheyAreReadAgain) {
  const Checkpoint checkpoint = OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/models/llama_gqa");
  const tensor::Weight w = checkpoint.weights->Load("model.embed_tokens.weight");
  std::vector<float> before(w.cols), after(w.cols);
  tensor::DecodeRow(w, 100, before.data());
  w.release();
  tensor::DecodeRow(w, 100, after.data());
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace peng::formats
