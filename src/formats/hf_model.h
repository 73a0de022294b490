// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "formats/checkpoint.h"

namespace peng::formats {

// The files around the weights of a Hugging Face folder: config.json, generation_config.json, tokenizer.json,
// tokenizer_config.json, chat_template.jinja. Only config.json must be there. Throws base::Error (kModelFile).
void ReadHfFolder(const std::string& folder, Checkpoint& checkpoint);

// The chat template of a tokenizer_config.json: a string, or a list of named ones, of which "default" counts.
std::optional<std::string> ChatTemplateOf(const std::string& path, const base::Json& tokenizer_config);

// The end-of-sequence ids in `values` ("eos_token_id": an id, a list of ids, or nothing), appended to `ids`.
void AddEosIds(const std::string& path, const base::Json& values, std::vector<int32_t>& ids);

}  // namespace peng::formats
