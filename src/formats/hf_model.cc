// SPDX-License-Identifier: Apache-2.0
#include "formats/hf_model.h"

#include <limits>

#include "base/error.h"
#include "formats/files.h"

namespace peng::formats {
namespace {

[[noreturn]] void Refuse(const std::string& path, const std::string& what, std::string_view action = {}) {
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(path, 4096), what, action);
}

}  // namespace

std::optional<std::string> ChatTemplateOf(const std::string& path, const base::Json& tokenizer_config) {
  const base::Json* found = tokenizer_config.Find("chat_template");
  if (found == nullptr || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->as_string();
  if (!found->is_array()) Refuse(path, "\"chat_template\" is neither a string nor a list");
  for (const base::Json& entry : found->as_array()) {
    const base::Json* name = entry.Find("name");
    const base::Json* text = entry.Find("template");
    if (name == nullptr || !name->is_string() || text == nullptr || !text->is_string()) {
      Refuse(path, "\"chat_template\" has an entry without a \"name\" and a \"template\"");
    }
    if (name->as_string() == "default") return text->as_string();
  }
  return std::nullopt;
}

void AddEosIds(const std::string& path, const base::Json& values, std::vector<int32_t>& ids) {
  const base::Json* found = values.Find("eos_token_id");
  if (found == nullptr || found->is_null()) return;
  const base::Json::Array list = found->is_array() ? found->as_array() : base::Json::Array{*found};
  for (const base::Json& id : list) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() > std::numeric_limits<int32_t>::max()) {
      Refuse(path, "\"eos_token_id\" has " + base::Printable(id.Dump(), 80) + ", must be a token id");
    }
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
}

void ReadHfFolder(const std::string& folder, Checkpoint& checkpoint) {
  const std::string config_path = folder + "/config.json";
  const std::optional<std::string> config_text = ReadTextFileIfThere(config_path);
  if (!config_text) Refuse(folder, "has no config.json", "give a folder in Hugging Face's layout, or a .gguf file");
  checkpoint.config = ModelConfig(config_path, ParseJsonObject(config_path, *config_text));
  AddEosIds(config_path, checkpoint.config.values(), checkpoint.eos_token_ids);

  const std::string generation_path = folder + "/generation_config.json";
  if (const auto text = ReadTextFileIfThere(generation_path)) {
    checkpoint.generation_config = ParseJsonObject(generation_path, *text);
    AddEosIds(generation_path, checkpoint.generation_config, checkpoint.eos_token_ids);
  }

  checkpoint.tokenizer.source = folder + "/tokenizer.json";
  checkpoint.tokenizer.tokenizer_json = ReadTextFileIfThere(checkpoint.tokenizer.source).value_or("");
  const std::string tokenizer_config_path = folder + "/tokenizer_config.json";
  if (auto text = ReadTextFileIfThere(tokenizer_config_path)) {
    checkpoint.chat_template = ChatTemplateOf(tokenizer_config_path, ParseJsonObject(tokenizer_config_path, *text));
    checkpoint.chat_template_source = tokenizer_config_path;
    checkpoint.tokenizer.tokenizer_config_json = std::move(*text);
  }
  // A template file of its own is newer than the key.
  const std::string template_path = folder + "/chat_template.jinja";
  if (auto text = ReadTextFileIfThere(template_path)) {
    checkpoint.chat_template = std::move(*text);
    checkpoint.chat_template_source = template_path;
  }
}

}  // namespace peng::formats
