// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace peng::formats {

// A model's hyperparameters under the key names of Hugging Face's config.json, whatever file they came from: the GGUF
// reader translates its own keys ("llama.block_count" becomes "num_hidden_layers"). Values are checked when they are
// read; every getter throws base::Error (kModelFile) that names the source file, the file's key and the value found.
class ModelConfig {
 public:
  // Names of the file for keys that it calls otherwise: {"num_hidden_layers", "llama.block_count"}; a key inside an
  // object is "rope_scaling.factor".
  using FileKeys = std::map<std::string, std::string, std::less<>>;

  ModelConfig() = default;  // empty: every required key is missing
  ModelConfig(std::string source, base::Json values, FileKeys file_keys = {})
      : source_(std::move(source)), values_(std::move(values)), file_keys_(std::move(file_keys)) {}

  // The file that the values came from, for messages.
  const std::string& source() const { return source_; }
  // "LlamaForCausalLM": the first of "architectures".
  std::string Architecture() const;

  bool Has(std::string_view key) const;  // present and not null
  // An integer within [min, max]; required unless `fallback` is given.
  int64_t Int(std::string_view key, int64_t min, int64_t max, std::optional<int64_t> fallback = {}) const;
  double Float(std::string_view key, std::optional<double> fallback = {}) const;  // finite
  bool Bool(std::string_view key, bool fallback) const;
  std::string String(std::string_view key, std::optional<std::string> fallback = {}) const;
  // A nested object ("rope_scaling") as a config of its own; nullopt if absent or null.
  std::optional<ModelConfig> Object(std::string_view key) const;
  const base::Json& values() const { return values_; }

  // Throws the error that the getters throw, for checks across keys.
  [[noreturn]] void Refuse(std::string_view key, std::string_view what, std::string_view action = {}) const;

 private:
  std::string source_;
  base::Json values_;
  FileKeys file_keys_;
};

}  // namespace peng::formats
