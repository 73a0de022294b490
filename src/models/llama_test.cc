// SPDX-License-Identifier: Apache-2.0
#include "models/llama.h"

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cmath>
#include <map>
#include <thread>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "models/registry.h"
#include "models/test_models.h"

namespace peng::models {
namespace {

using formats::ModelConfig;

const std::string kModels = PENG_SOURCE_DIR "/tests/data/models/";
const std::vector<int32_t> kIds = {0, 32, 170, 266, 45, 250, 324, 248, 49, 328, 22, 157, 375, 188};

// Another map with some tensors taken away or in another shape.
class ChangedWeights : public formats::WeightMap {
 public:
  explicit ChangedWeights(const formats::WeightMap& base) : base_(base) {}
  void Remove(const std::string& name) { removed_.push_back(name); }
  void AddVector(const std::string& name, std::vector<float> values) { vectors_[name] = std::move(values); }

  formats::Naming naming() const override { return base_.naming(); }
  const std::string& source() const override { return base_.source(); }
  std::vector<std::string> Names() const override { return base_.Names(); }
  int64_t TotalBytes() const override { return base_.TotalBytes(); }
  std::optional<formats::WeightInfo> Find(std::string_view name) const override {
    if (std::find(removed_.begin(), removed_.end(), name) != removed_.end()) return std::nullopt;
    if (const auto it = vectors_.find(name); it != vectors_.end()) {
      const auto size = static_cast<int64_t>(it->second.size());
      return formats::WeightInfo{1, size, tensor::Format::kF32, size * 4};
    }
    return base_.Find(name);
  }
  tensor::Weight Load(std::string_view name, std::optional<formats::Slice> slice) const override {
    const auto it = vectors_.find(name);
    if (it == vectors_.end()) return base_.Load(name, slice);
    tensor::Weight w;
    w.rows = 1;
    w.cols = static_cast<int64_t>(it->second.size());
    w.planes = {{reinterpret_cast<const std::byte*>(it->second.data()), w.cols * 4, w.cols * 4}};
    return w;
  }

 private:
  const formats::WeightMap& base_;
  std::vector<std::string> removed_;
  std::map<std::string, std::vector<float>, std::less<>> vectors_;
};

ModelConfig With(const ModelConfig& config, std::string_view key, base::Json value) {
  base::Json values = config.values();
  values.Set(key, std::move(value));
  return {config.source(), std::move(values)};
}

std::string ErrorOf(const ModelConfig& config, const formats::WeightMap& weights) {
  const auto backend = MakeFloat32Backend();
  WeightLoader loader(weights, *backend);
  try {
    MakeModel(config, loader);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModelFile);
    return error.what();
  }
  return "";
}

std::vector<float> Logits(const ModelConfig& config, const formats::WeightMap& weights) {
  const auto backend = MakeFloat32Backend();
  WeightLoader loader(weights, *backend);
  const auto model = MakeModel(config, loader);
  loader.LoadAll();
  return LastLogits(*backend, *model, kIds);
}

TEST(Llama, DeclaresWhatItNeedsBeforeLoading) {
  const auto checkpoint = formats::OpenCheckpoint(kModels + "llama_gqa");
  const auto backend = MakeFloat32Backend();
  WeightLoader loader(*checkpoint.weights, *backend);
  const auto model = MakeModel(checkpoint.config, loader);
  EXPECT_EQ(loader.file_bytes(), checkpoint.weights->TotalBytes());
  EXPECT_GT(loader.planned_bytes(), 0);
  EXPECT_EQ(model->info().architecture, "LlamaForCausalLM");
  EXPECT_EQ(model->info().vocab_size, 512);
  EXPECT_EQ(model->info().max_positions, 512);
  const auto kv = model->Kv(tensor::DType::kBF16);
  ASSERT_EQ(kv.size(), 1u);
  EXPECT_EQ(kv[0].num_layers, 2);
  EXPECT_EQ(kv[0].num_heads, 2);
  EXPECT_EQ(kv[0].head_dim, 32);

  int64_t last = 0;
  loader.LoadAll([&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
  });
  EXPECT_EQ(last, loader.file_bytes());
}

TEST(Llama, RefusesConfigsThatMakeNoSense) {
  const auto checkpoint = formats::OpenCheckpoint(kModels + "llama_gqa");
  const std::tuple<const char*, base::Json, const char*> faults[] = {
      {"num_hidden_layers", 0, "\"num_hidden_layers\" is 0"},
      {"num_hidden_layers", int64_t{1} << 40, "num_hidden_layers"},
      {"hidden_size", -256, "hidden_size"},
      {"hidden_size", "256", "must be an integer"},
      {"vocab_size", int64_t{1} << 50, "vocab_size"},
      {"num_attention_heads", 0, "num_attention_heads"},
      {"num_attention_heads", 7, "num_key_value_heads"},
      {"num_key_value_heads", 3, "num_key_value_heads"},
      {"head_dim", 31, "must be even"},
      {"rms_norm_eps", -1.0, "rms_norm_eps"},
      {"hidden_act", "gelu", "\"gelu\""},
      {"architectures", base::Json::Array{"GPT2LMHeadModel"}, "supported: LlamaForCausalLM"},
      {"architectures", base::Json::Array{}, "architectures"},
      {"quantization_config", base::Json::Object{{"quant_method", "awq"}}, "\"awq\""},
      {"num_local_experts", 8, "num_local_experts"},
      // A config of another model: the first tensor that does not fit is named.
      {"intermediate_size", 512,
       "\"model.layers.0.mlp.gate_proj.weight\" is [256, 256], the config asks for [512, 256]"},
      {"num_hidden_layers", 3, "\"model.layers.2.input_layernorm.weight\" is missing"},
      {"attention_bias", true, "\"model.layers.0.self_attn.q_proj.bias\" is missing"},
  };
  for (const auto& [key, value, expected] : faults) {
    const std::string error = ErrorOf(With(checkpoint.config, key, value), *checkpoint.weights);
    EXPECT_NE(error.find(expected), std::string::npos) << key << " " << value.Dump() << ": " << error;
  }
}

TEST(Llama, TiedEmbeddings) {
  const auto checkpoint = formats::OpenCheckpoint(kModels + "llama_gqa");
  ChangedWeights no_head(*checkpoint.weights);
  no_head.Remove("lm_head.weight");
  const ModelConfig tied = With(checkpoint.config, "tie_word_embeddings", true);
  const ModelConfig silent = With(checkpoint.config, "tie_word_embeddings", nullptr);

  // The flag decides, whether there is a head or not; without a flag, a missing head means tied.
  const std::vector<float> reused = Logits(tied, no_head);
  EXPECT_EQ(Logits(tied, *checkpoint.weights), reused);
  EXPECT_EQ(Logits(silent, no_head), reused);
  EXPECT_NE(Logits(silent, *checkpoint.weights), reused);
  EXPECT_NE(ErrorOf(checkpoint.config, no_head).find("\"lm_head.weight\" is missing"), std::string::npos);
}

TEST(Llama, RopeFactorsOfAGgufFileCount) {
  const auto checkpoint = formats::OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/gguf/llama_gqa-Q8_0.gguf");
  const std::vector<float> plain = Logits(checkpoint.config, *checkpoint.weights);
  ChangedWeights ones(*checkpoint.weights), fours(*checkpoint.weights), wrong(*checkpoint.weights);
  ones.AddVector("rope_freqs.weight", std::vector<float>(16, 1.0f));
  fours.AddVector("rope_freqs.weight", std::vector<float>(16, 4.0f));
  wrong.AddVector("rope_freqs.weight", std::vector<float>(8, 1.0f));
  EXPECT_EQ(Logits(checkpoint.config, ones), plain);
  const ModelConfig linear =
      With(checkpoint.config, "rope_scaling", base::Json::Object{{"rope_type", "linear"}, {"factor", 4.0}});
  EXPECT_EQ(Logits(checkpoint.config, fours), Logits(linear, *checkpoint.weights));
  EXPECT_NE(Logits(checkpoint.config, fours), plain);
  EXPECT_NE(ErrorOf(checkpoint.config, wrong).find("\"rope_freqs.weight\" is [8]"), std::string::npos);
}

TEST(Qwen, RefusesSlidingWindows) {
  for (const char* name : {"qwen2", "qwen3"}) {
    const auto checkpoint = formats::OpenCheckpoint(kModels + name);
    const ModelConfig config = With(checkpoint.config, "use_sliding_window", true);
    EXPECT_NE(ErrorOf(config, *checkpoint.weights).find("use_sliding_window"), std::string::npos);
  }
}

// Two ranks as two threads that meet at barriers. Tensors of the CPU backend are host memory.
class TwoRanks {
 public:
  class Comm : public backend::Communicator {
   public:
    Comm(TwoRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return 2; }
    void AllReduceSum(backend::Tensor x) override {
      all_.Exchange(rank_, x);
      const backend::Tensor& other = all_.tensors_[1 - rank_];
      std::vector<float> sum;
      for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t c = 0; c < x.cols; ++c) sum.push_back(At(x, r, c) + At(other, r, c));
      }
      all_.barrier_.arrive_and_wait();
      for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t c = 0; c < x.cols; ++c) At(x, r, c) = sum[r * x.cols + c];
      }
      all_.barrier_.arrive_and_wait();
    }
    void AllGatherCols(backend::Tensor part, backend::Tensor whole) override {
      all_.Exchange(rank_, part);
      for (int from = 0; from < 2; ++from) {
        for (int64_t r = 0; r < part.rows; ++r) {
          for (int64_t c = 0; c < part.cols; ++c) {
            At(whole, r, from * part.cols + c) = At(all_.tensors_[from], r, c);
          }
        }
      }
      all_.barrier_.arrive_and_wait();
    }

   private:
    static float& At(const backend::Tensor& t, int64_t r, int64_t c) {
      return static_cast<float*>(t.data)[r * t.stride + c];
    }
    TwoRanks& all_;
    int rank_;
  };

 private:
  void Exchange(int rank, const backend::Tensor& t) {
    tensors_[rank] = t;
    barrier_.arrive_and_wait();
  }
  std::barrier<> barrier_{2};
  std::array<backend::Tensor, 2> tensors_;
};

class TensorParallel : public testing::TestWithParam<std::string> {};

TEST_P(TensorParallel, TwoRanksComputeWhatOneDoes) {
  const auto checkpoint = formats::OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/" + GetParam());
  const std::vector<float> expected = Logits(checkpoint.config, *checkpoint.weights);
  TwoRanks ranks;
  std::array<std::vector<float>, 2> got;
  const auto run = [&](int rank) {
    const auto backend = MakeFloat32Backend();
    WeightLoader loader(*checkpoint.weights, *backend, {rank, 2});
    const auto model = MakeModel(checkpoint.config, loader);
    loader.LoadAll();
    TwoRanks::Comm comm(ranks, rank);
    got[rank] = LastLogits(*backend, *model, kIds, &comm);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_EQ(got[0], got[1]);
  ASSERT_EQ(got[0].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[0][i], expected[i], 1e-3) << i;
}

INSTANTIATE_TEST_SUITE_P(Models, TensorParallel,
                         testing::Values("models/llama_gqa", "models/qwen2", "models/qwen3",
                                         "gguf/llama_gqa-Q4_0.gguf"));

TEST(TensorParallelSizes, RefusesWhatCannotBeSharedEqually) {
  const auto checkpoint = formats::OpenCheckpoint(kModels + "llama_gqa");
  const auto backend = MakeFloat32Backend();
  WeightLoader loader(*checkpoint.weights, *backend, {0, 4});
  try {
    MakeModel(checkpoint.config, loader);
    ADD_FAILURE() << "not refused";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("2 KV heads"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace peng::models
