// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "api/llm.h"
#include "base/json.h"
#include "server/openai_types.h"
#include "server/routes.h"

namespace peng::server {

// One choice of a reply that is being made.
struct ChoiceState {
  int32_t index = 0;
  size_t prompt = 0;  // index of its prompt
  api::Delta whole;   // what has come so far; when streaming only the ends of it
  int64_t generated_tokens = 0;
  int64_t text_offset = 0;  // of the next token, for completions' logprobs
  bool any_sent = false;
  std::string logged_text;  // with --log-prompts
  std::optional<std::chrono::steady_clock::time_point> last_token;
};

// A generating request from its parsed form to the last byte of its reply, streamed or whole. The endpoints differ in
// the shape of what they write. Events come from the dispatcher thread, the disconnect from a connection's.
class GenerationSession : public std::enable_shared_from_this<GenerationSession> {
 public:
  virtual ~GenerationSession() = default;

  // Tokenizes `prompts`, starts their choices and returns. Whatever goes wrong until then is a plain 4xx or 5xx.
  void Run(api::Llm& llm, std::vector<api::Prompt> prompts);

 protected:
  GenerationSession(const Call& call, const api::Llm& llm, const CommonRequest& request, std::string_view id_prefix);

  // The shape of the endpoint.
  virtual std::string_view ObjectName() const = 0;
  virtual std::string_view ChunkObjectName() const = 0;
  // Sends what comes before the first token of a streamed reply.
  virtual void OpenStream() = 0;
  // The choice of a chunk; null if there is nothing to say.
  virtual base::Json ChunkChoice(ChoiceState& choice, const api::Delta& delta) = 0;
  virtual base::Json WholeChoice(ChoiceState& choice) = 0;
  // Members at the top of a whole reply.
  virtual void Finish(base::Json* reply) = 0;

  void SendChunk(base::Json::Array choices, base::Json::Object more = {});
  const std::vector<int32_t>& prompt_ids(size_t prompt) const { return prepared_[prompt].prompt_ids; }

  const CommonRequest request_;
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::vector<ChoiceState> choices_;

 private:
  bool PrepareAll(const api::Llm& llm, std::vector<api::Prompt> prompts);
  void StartAll(api::Llm& llm);
  void OnDelta(ChoiceState& choice, const api::Delta& delta);
  void OnDisconnect();
  void EndGone();
  void Observe(ChoiceState& choice, const api::Delta& delta);
  void ObserveEnd(const ChoiceState& choice, const api::Delta& delta, std::string_view reason);
  bool HasWarnings() const { return !request_.unknown_fields.empty() || !request_.idle_fields.empty(); }
  void EndStream();
  void SendWhole();
  void FailAll(const api::Delta& failed);
  base::Json Usage() const;
  RequestFigures Figures() const;
  // What came of the whole request; before the reply ends.
  void TellEnd(std::string_view finish, const engine::RequestTimes& times);
  void LogPrompts() const;
  void LogReply(ChoiceState& choice, const api::Delta& delta) const;

  Service& service_;
  std::shared_ptr<HttpReply> reply_;
  const std::shared_ptr<RequestScope> scope_;
  const std::string id_;
  const int64_t created_;
  const std::chrono::steady_clock::time_point arrival_ = std::chrono::steady_clock::now();
  std::vector<api::PreparedRequest> prepared_;

  // A client may leave while its choices are being started, which holds the mutex for as long as that takes.
  enum class Phase : uint8_t { kStarting, kStarted, kGone };
  std::atomic<Phase> phase_{Phase::kStarting};
  std::stop_source gone_;

  std::mutex mutex_;  // guards what follows, choices_ and the order of what is written
  std::vector<std::shared_ptr<api::Generation>> generations_;
  size_t open_choices_ = 0;
  bool warned_ = false;
  bool over_ = false;
};

// The value of system_fingerprint.
std::string SystemFingerprint(const Service& service);

}  // namespace peng::server
