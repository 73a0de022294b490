// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "formats/gguf_model.h"

namespace peng::formats {
namespace {

using base::Json;

constexpr int64_t kMaxSize = int64_t{1} << 31;

struct ArchitectureName {
  std::string_view gguf;
  std::string_view hf;
};
constexpr ArchitectureName kArchitectures[] = {
    {"llama", "LlamaForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
};

// Copies keys "ARCHITECTURE.name" of the file to the names that config.json has for them.
class ConfigBuilder {
 public:
  ConfigBuilder(const GgufFile& file, std::string architecture)
      : file_(file), prefix_(std::move(architecture) + "."), config_(Json::Object()) {}

  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }

  void Set(std::string_view hf, Json value) { config_.Set(hf, std::move(value)); }

  std::optional<int64_t> Int(std::string_view hf, std::string_view name, int64_t max = kMaxSize) {
    auto value = OneInt(name, max);
    Name(hf, name);
    if (value) Set(hf, Json(*value));
    return value;
  }

  std::optional<double> Float(std::string_view hf, std::string_view name) {
    auto value = file_.Float(Key(name));
    Name(hf, name);
    if (value) Set(hf, Json(*value));
    return value;
  }

  // An integer, or an array of equal ones: some writers state a value per layer.
  std::optional<int64_t> OneInt(std::string_view name, int64_t max) const {
    const std::string key = Key(name);
    const GgufValue* value = file_.Find(key);
    if (value == nullptr || !std::holds_alternative<GgufArray>(*value)) return file_.Int(key, 0, max);
    const std::vector<int64_t> values = *file_.Ints(key);
    if (values.empty()) return std::nullopt;
    if (std::any_of(values.begin(), values.end(), [&](int64_t v) { return v != values[0]; })) {
      file_.Refuse(key, "differs between layers, which is not supported");
    }
    if (values[0] < 0 || values[0] > max) file_.Refuse(key, "is " + std::to_string(values[0]));
    return values[0];
  }

  // Says what the file calls the key `hf`.
  void Name(std::string_view hf, std::string_view name) { file_keys_.emplace(hf, Key(name)); }

  ModelConfig Take() { return {file_.path(), std::move(config_), std::move(file_keys_)}; }

 private:
  const GgufFile& file_;
  std::string prefix_;
  Json config_;
  ModelConfig::FileKeys file_keys_;
};

// rope.scaling.* as config.json's "rope_scaling"; also the older key rope.scale_linear.
void AddRopeScaling(const GgufFile& file, ConfigBuilder& builder) {
  const std::string type = file.String(builder.Key("rope.scaling.type")).value_or("");
  const std::optional<double> old_linear = file.Float(builder.Key("rope.scale_linear"));
  if (type.empty() && old_linear && *old_linear != 1.0) {
    builder.Set("rope_scaling", Json(Json::Object{{"rope_type", "linear"}, {"factor", *old_linear}}));
    return;
  }
  if (type.empty() || type == "none") return;
  Json scaling = Json::Object{{"rope_type", type}};
  for (const auto& [hf, name] :
       {std::pair("rope_scaling.rope_type", "rope.scaling.type"),
        std::pair("rope_scaling.factor", "rope.scaling.factor"),
        std::pair("rope_scaling.attn_factor", "rope.scaling.attn_factor"),
        std::pair("rope_scaling.beta_fast", "rope.scaling.yarn_beta_fast"),
        std::pair("rope_scaling.beta_slow", "rope.scaling.yarn_beta_slow"),
        std::pair("rope_scaling.original_max_position_embeddings", "rope.scaling.original_context_length")}) {
    builder.Name(hf, name);
  }
  if (const auto factor = file.Float(builder.Key("rope.scaling.factor"))) scaling.Set("factor", Json(*factor));
  if (const auto original = file.Int(builder.Key("rope.scaling.original_context_length"), 1, kMaxSize)) {
    scaling.Set("original_max_position_embeddings", Json(*original));
  }
  // The file's attn_factor multiplies yarn's own factor, as vLLM reads it.
  if (const auto factor = file.Float(builder.Key("rope.scaling.attn_factor")))
    scaling.Set("attn_factor", Json(*factor));
  for (const auto& [name, hf] :
       {std::pair("rope.scaling.yarn_beta_fast", "beta_fast"), std::pair("rope.scaling.yarn_beta_slow", "beta_slow")}) {
    if (const auto value = file.Float(builder.Key(name))) scaling.Set(hf, Json(*value));
  }
  builder.Set("rope_scaling", std::move(scaling));
}

// Head sizes: K and V must be alike; a rotated part smaller than the head is config.json's "partial_rotary_factor".
void AddHeads(const GgufFile& file, ConfigBuilder& builder) {
  const auto hidden = builder.Int("hidden_size", "embedding_length");
  const auto heads = builder.Int("num_attention_heads", "attention.head_count");
  builder.Int("num_key_value_heads", "attention.head_count_kv");
  auto head_dim = builder.Int("head_dim", "attention.key_length");
  const auto value_dim = builder.OneInt("attention.value_length", kMaxSize);
  if (!head_dim && hidden && heads && *heads > 0) head_dim = *hidden / *heads;
  if (value_dim && head_dim && *value_dim != *head_dim) {
    file.Refuse(builder.Key("attention.value_length"), "is " + std::to_string(*value_dim) + ", the key length is " +
                                                           std::to_string(*head_dim) +
                                                           "; different lengths are not supported");
  }
  const auto rotary = builder.OneInt("rope.dimension_count", kMaxSize);
  if (rotary && head_dim && *head_dim > 0 && *rotary != *head_dim) {
    builder.Set("partial_rotary_factor", Json(static_cast<double>(*rotary) / static_cast<double>(*head_dim)));
  }
}

}  // namespace

ModelConfig GgufConfig(const GgufFile& file, const MappedWeights& weights) {
  const auto architecture = file.String("general.architecture");
  if (!architecture) file.Refuse("general.architecture", "is missing", "it names the kind of model");
  std::string_view hf_name = *architecture;
  for (const ArchitectureName& name : kArchitectures)
    if (name.gguf == *architecture) hf_name = name.hf;

  ConfigBuilder builder(file, *architecture);
  builder.Set("architectures", Json(Json::Array{Json(hf_name)}));
  builder.Set("model_type", Json(*architecture));
  builder.Int("num_hidden_layers", "block_count");
  builder.Int("intermediate_size", "feed_forward_length");
  builder.Int("max_position_embeddings", "context_length");
  builder.Int("num_local_experts", "expert_count");
  AddHeads(file, builder);
  builder.Float("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  if (!builder.Float("rope_theta", "rope.freq_base")) builder.Set("rope_theta", Json(10000.0));
  AddRopeScaling(file, builder);

  // The table of embeddings says how many tokens there are; the vocabulary key is absent in many files.
  const auto& tensors = weights.tensors();
  if (const auto it = tensors.find("token_embd.weight"); it != tensors.end() && it->second.shape.size() == 2) {
    builder.Set("vocab_size", Json(it->second.shape[0]));
  }
  builder.Set("tie_word_embeddings", Json(!tensors.contains("output.weight")));
  builder.Set("attention_bias", Json(tensors.contains("blk.0.attn_q.bias")));
  builder.Set("mlp_bias", Json(tensors.contains("blk.0.ffn_gate.bias")));
  return builder.Take();
}

}  // namespace peng::formats
