// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "api/generation.h"
#include "base/json.h"
#include "engine/engine_client.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace peng::api {

class Core;

// What an Llm is made of. Tests put a fake engine here.
struct LlmParts {
  std::shared_ptr<void> engine_owner;  // what `engine` needs alive: model, backend, checkpoint
  std::unique_ptr<engine::EngineClient> engine;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;  // null if the model has none
  std::vector<int32_t> eos_token_ids;
  base::Json generation_config;  // defaults of sampling parameters; object or null
  int32_t max_model_len = 0;     // positions: prompt and reply
  int32_t vocab_size = 0;        // ids the model can take and give
  int32_t max_logprobs = 20;
  bool priority_scheduling = false;  // else a request may not ask for a priority
  std::optional<uint64_t> seed;      // of the seeds that requests without one get; unset = random
  std::string model_path;
  std::string architecture;
};

// Text in, text out: templates, tokens, detokenization and stop strings around an engine. Thread-safe.
class Llm {
 public:
  explicit Llm(LlmParts parts);
  ~Llm();  // Shutdown

  // Cancels what still runs, without more deltas, and ends the dispatcher thread. Not from a callback, which for the
  // same reason must not own the Llm.
  void Shutdown();

  // Checks, renders and tokenizes. Takes as long as the text is; for worker threads. `sibling` is a request that was
  // prepared from the same parameters: its lists are shared, not made once more.
  std::variant<PreparedRequest, Refusal> Prepare(GenerateRequest request,
                                                 const PreparedRequest* sibling = nullptr) const;

  // Queues every choice. `on_delta` is called until each choice has had a delta with a finish; with nothing after the
  // generation is dropped or cancelled. Once `stop` is asked for, no more choices are queued.
  std::variant<std::shared_ptr<Generation>, Refusal> Start(const PreparedRequest& request, DeltaCallback on_delta,
                                                           const std::stop_token& stop = {});

  // Prepare, Start and wait: the whole reply of every choice. For the command line and tests.
  std::variant<std::vector<Delta>, Refusal> Complete(GenerateRequest request);

  // The prompt as ids, as Prepare would do it.
  std::variant<std::vector<int32_t>, Refusal> Tokenize(const Prompt& prompt,
                                                       std::optional<bool> add_special_tokens = {}) const;

  engine::EngineHealth Health() const;
  engine::EngineStats Stats() const;
  void ResetPrefixCache();
  int RunningGenerations() const;  // choices that have not finished

  const text::Tokenizer& tokenizer() const;
  std::shared_ptr<const text::Tokenizer> shared_tokenizer() const;  // for what outlives this
  bool has_chat_template() const;
  int32_t max_model_len() const;
  int32_t vocab_size() const;
  int32_t max_logprobs() const;
  const std::string& model_path() const;
  const std::string& architecture() const;

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace peng::api
