// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/model_config.h"
#include "formats/weight_map.h"

namespace peng::formats {

// The tokenizer as the checkpoint carries it: the text of a tokenizer.json, or the vocabulary keys of a GGUF file.
struct TokenizerData {
  std::string source;                 // file name, for messages
  std::string tokenizer_json;         // HF folders; empty for GGUF
  std::string tokenizer_config_json;  // HF folders; may be empty

  // GGUF ("tokenizer.ggml.*").
  std::string model;  // "gpt2", "llama"
  std::string pre;    // "smollm", "deepseek-llm", "llama-bpe"; empty if the key is absent
  std::vector<std::string> tokens;
  std::vector<int32_t> token_types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::optional<int32_t> bos_id, eos_id, eot_id, eom_id, unk_id, pad_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// Everything that a model file or folder holds.
struct Checkpoint {
  std::string path;
  ModelConfig config;
  std::unique_ptr<WeightMap> weights;
  TokenizerData tokenizer;
  std::optional<std::string> chat_template;
  std::string chat_template_source;    // file name, for messages
  std::vector<int32_t> eos_token_ids;  // union over config, generation_config and GGUF keys, sorted
  base::Json generation_config;        // object, or null
};

// Opens a `.gguf` file, a Hugging Face folder, or a `.safetensors` file with its folder's config. Every size, offset,
// shape and count is checked against the file before it is used. Throws base::Error (kModelFile), one line.
Checkpoint OpenCheckpoint(const std::string& path);

}  // namespace peng::formats
