// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: an Llm with a real small tokenizer and chat template around a FakeEngine.

#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/fake_engine.h"
#include "api/llm.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace peng::api {

inline std::string ReadTestFile(const std::string& name) {
  std::ifstream in(PENG_SOURCE_DIR "/tests/data/" + name, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read tests/data/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::shared_ptr<const text::Tokenizer> TestTokenizer() {
  static const auto tokenizer = std::make_shared<const text::Tokenizer>(
      text::TokenizerSpec{text::HfTokenizerSpec{ReadTestFile("models/llama_gqa/tokenizer.json"),
                                                ReadTestFile("models/llama_gqa/tokenizer_config.json")},
                          "llama_gqa"});
  return tokenizer;
}

inline constexpr int32_t kTestEos = 1;
inline constexpr int32_t kTestVocab = 512;

// Replies with the tokens of `text`, then the end token.
inline FakeEngine::NextToken Saying(const std::string& text) {
  std::vector<int32_t> ids = TestTokenizer()->Encode(text, false);
  ids.push_back(kTestEos);
  return [ids](const sched::RequestSpec&, int32_t index) { return ids[static_cast<size_t>(index) % ids.size()]; };
}

inline LlmParts TestParts(std::unique_ptr<engine::EngineClient> engine) {
  const auto config = base::ParseJson(ReadTestFile("models/llama_gqa/tokenizer_config.json"));
  LlmParts parts;
  parts.engine = std::move(engine);
  parts.tokenizer = TestTokenizer();
  parts.chat_template =
      std::make_shared<const text::ChatTemplate>(*text::FindChatTemplate(std::get<base::Json>(config)),
                                                 "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "test");
  parts.eos_token_ids = {kTestEos};
  parts.max_model_len = 256;
  parts.vocab_size = kTestVocab;
  parts.model_path = "test-model";
  parts.architecture = "LlamaForCausalLM";
  return parts;
}

struct TestLlm {
  explicit TestLlm(FakeEngine::Options options) {
    auto owned = std::make_unique<FakeEngine>(std::move(options));
    engine = owned.get();
    llm = std::make_shared<Llm>(TestParts(std::move(owned)));
  }
  FakeEngine* engine;  // owned by llm
  std::shared_ptr<Llm> llm;
};

}  // namespace peng::api
