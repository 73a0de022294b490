// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files of tests/data for this folder's tests.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace peng::text {

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::string TestDataDir() { return PENG_SOURCE_DIR "/tests/data"; }

inline base::Json LoadJson(const std::string& path) {
  auto parsed = base::ParseJson(ReadFile(path));
  if (auto* error = std::get_if<base::JsonError>(&parsed)) throw std::runtime_error(path + ": " + error->message);
  return std::get<base::Json>(std::move(parsed));
}

// tokenizers/NAME of the files that the build unpacks.
inline std::string UnpackedTokenizer(const std::string& name) { return PENG_UNPACKED_DIR "/tokenizers/" + name; }

// Golden files that may not be committed (their licences restrict use) are read from this folder, laid out as
// tests/data; null if the environment names none. Tests of them are skipped then.
inline const char* ExtraDataDir() { return std::getenv("PENG_EXTRA_TEST_DATA"); }

// tokenizer.json of a tokenizer of tests/data/tokenizers. Some are another's with other added tokens.
inline std::string TokenizerJson(const std::string& name) {
  const bool v4 = name == "deepseek_v4";
  if (!v4 && name != "r1_distill_qwen") return ReadFile(UnpackedTokenizer(name + ".tokenizer.json"));
  base::Json file = LoadJson(UnpackedTokenizer(v4 ? "deepseek_v3.tokenizer.json" : "qwen2_5.tokenizer.json"));
  file.Set("added_tokens", LoadJson(TestDataDir() + "/tokenizers/" + name + ".added_tokens.json"));
  return file.Dump();
}

inline std::vector<int32_t> Ids(const base::Json& list) {
  std::vector<int32_t> ids;
  for (const base::Json& id : list.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

inline std::vector<std::string> Strings(const base::Json& list) {
  std::vector<std::string> texts;
  for (const base::Json& text : list.as_array()) texts.push_back(text.as_string());
  return texts;
}

inline std::shared_ptr<const Tokenizer> LoadHfTokenizer(const std::string& name, const std::string& config = {}) {
  HfTokenizerSpec hf{TokenizerJson(name), config};
  return std::make_shared<const Tokenizer>(TokenizerSpec{std::move(hf), name});
}

// The vocabulary in a JSON file whose keys are those of tokenizer.ggml.
inline GgufVocabulary GgufFromJson(const base::Json& file) {
  GgufVocabulary v;
  v.model = file.Find("model")->as_string();
  v.pre = file.Find("pre")->as_string();
  v.tokens = Strings(*file.Find("tokens"));
  v.token_types = Ids(*file.Find("token_type"));
  v.merges = Strings(*file.Find("merges"));
  if (const auto* id = file.Find("bos_token_id")) v.bos_id = id->as_int();
  if (const auto* id = file.Find("eos_token_id")) v.eos_id = id->as_int();
  if (const auto* add = file.Find("add_bos_token")) v.add_bos = add->as_bool();
  return v;
}

}  // namespace peng::text
