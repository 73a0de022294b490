// SPDX-License-Identifier: Apache-2.0
#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace peng::models {
namespace {

using backend::RopeTable;
using formats::ModelConfig;

constexpr int64_t kMaxContext = int64_t{1} << 30;
constexpr double kMaxFactor = 1e6;

double Positive(const ModelConfig& config, std::string_view key, std::optional<double> fallback = {},
                double max = 1e12) {
  const double value = config.Float(key, fallback);
  if (!(value > 0 && value <= max)) config.Refuse(key, "is " + std::to_string(value) + ", must be a positive number");
  return value;
}

// Where scaling is described: "rope_parameters" or "rope_scaling".
std::optional<ModelConfig> ScalingOf(const ModelConfig& config) {
  if (auto parameters = config.Object("rope_parameters")) return parameters;
  return config.Object("rope_scaling");
}

std::string TypeOf(const std::optional<ModelConfig>& scaling) {
  if (!scaling) return "default";
  return scaling->String("rope_type", scaling->String("type", "default"));
}

int64_t OriginalContext(const ModelConfig& config, const ModelConfig& scaling) {
  const int64_t whole = config.Int("max_position_embeddings", 1, kMaxContext, 2048);
  return scaling.Int("original_max_position_embeddings", 1, kMaxContext, whole);
}

// Long wavelengths are stretched, short ones kept, those between blended.
void ScaleLlama3(const ModelConfig& config, const ModelConfig& scaling, std::vector<double>& inv_freq) {
  const double factor = Positive(scaling, "factor", {}, kMaxFactor);
  const double low = Positive(scaling, "low_freq_factor"), high = Positive(scaling, "high_freq_factor");
  if (high <= low) scaling.Refuse("high_freq_factor", "is not above \"low_freq_factor\"");
  const auto original = static_cast<double>(OriginalContext(config, scaling));
  for (double& f : inv_freq) {
    const double turns = original * f / (2 * std::numbers::pi);  // full turns over the original context
    const double blend = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    f = (1 - blend) * f / factor + blend * f;
  }
}

// The pair that makes `turns` full turns over the original context, as a real number.
double PairOfTurns(double turns, double original, double theta, int rotary_dim) {
  return rotary_dim * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

double YarnFactor(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double YarnAttentionScale(const ModelConfig& scaling, double factor) {
  if (scaling.Has("attention_factor")) return Positive(scaling, "attention_factor", {}, kMaxFactor);
  const double mscale = scaling.Float("mscale", 0.0), mscale_all = scaling.Float("mscale_all_dim", 0.0);
  if (mscale > 0 && mscale_all > 0) return YarnFactor(factor, mscale) / YarnFactor(factor, mscale_all);
  return YarnFactor(factor, 1.0) * Positive(scaling, "attn_factor", 1.0, kMaxFactor);
}

void ScaleYarn(const ModelConfig& config, const ModelConfig& scaling, double theta, RopeTable& table) {
  const double factor = Positive(scaling, "factor", {}, kMaxFactor);
  const double fast = Positive(scaling, "beta_fast", 32.0), slow = Positive(scaling, "beta_slow", 1.0);
  if (theta <= 1) config.Refuse("rope_theta", "is " + std::to_string(theta) + ", yarn needs more than 1");
  const auto original = static_cast<double>(OriginalContext(config, scaling));
  double low = PairOfTurns(fast, original, theta, table.rotary_dim);
  double high = PairOfTurns(slow, original, theta, table.rotary_dim);
  if (scaling.Bool("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, table.rotary_dim - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < table.inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    table.inv_freq[i] *= ramp / factor + (1 - ramp);
  }
  table.attention_scale = YarnAttentionScale(scaling, factor);
}

void ApplyScaling(const ModelConfig& config, double theta, RopeTable& table) {
  const std::optional<ModelConfig> scaling = ScalingOf(config);
  const std::string type = TypeOf(scaling);
  if (type == "default" || type == "none") return;
  if (type == "linear") {
    const double factor = Positive(*scaling, "factor", {}, kMaxFactor);
    for (double& f : table.inv_freq) f /= factor;
  } else if (type == "llama3") {
    ScaleLlama3(config, *scaling, table.inv_freq);
  } else if (type == "yarn") {
    ScaleYarn(config, *scaling, theta, table);
  } else {
    scaling->Refuse("rope_type", "is \"" + base::Printable(type, 40) + "\", which is not supported",
                    "linear, llama3 and yarn are");
  }
}

double ThetaOf(const ModelConfig& config) {
  const auto parameters = config.Object("rope_parameters");
  const bool nested = parameters && parameters->Has("rope_theta");
  return Positive(nested ? *parameters : config, "rope_theta", 10000.0);
}

}  // namespace

RopeTable MakeRopeTable(const ModelConfig& config, int head_dim, bool interleaved, std::span<const float> factors) {
  RopeTable table;
  table.interleaved = interleaved;
  const double part = Positive(config, "partial_rotary_factor", 1.0, 1.0);
  table.rotary_dim = static_cast<int>(std::lround(part * head_dim));
  if (table.rotary_dim < 2 || table.rotary_dim % 2 != 0) {
    config.Refuse("head_dim", "gives " + std::to_string(table.rotary_dim) + " rotated values per head, must be even");
  }
  const double theta = ThetaOf(config);
  for (int i = 0; i < table.rotary_dim / 2; ++i) {
    table.inv_freq.push_back(std::pow(theta, -2.0 * i / table.rotary_dim));
  }
  ApplyScaling(config, theta, table);
  for (size_t i = 0; i < std::min(factors.size(), table.inv_freq.size()); ++i) {
    if (!(factors[i] > 0 && std::isfinite(factors[i]))) {
      config.Refuse("rope_freqs.weight", "has the factor " + std::to_string(factors[i]) + ", must be positive");
    }
    table.inv_freq[i] /= static_cast<double>(factors[i]);
  }
  return table;
}

int64_t MaxPositions(const ModelConfig& config) {
  const int64_t stated = config.Int("max_position_embeddings", 1, kMaxContext, 2048);
  const std::optional<ModelConfig> scaling = ScalingOf(config);
  if (TypeOf(scaling) != "yarn") return stated;
  // Some configs state the context before scaling, others after.
  const double scaled =
      static_cast<double>(OriginalContext(config, *scaling)) * Positive(*scaling, "factor", {}, kMaxFactor);
  return std::max(stated, static_cast<int64_t>(std::min(scaled, static_cast<double>(kMaxContext))));
}

}  // namespace peng::models
