// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "api/generation.h"
#include "engine/engine_client.h"
#include "text/detokenizer.h"
#include "text/stop_checker.h"

namespace peng::api {

// The reply of one choice: engine events in, deltas of text out. The joined texts do not depend on how the tokens were
// spread over events. Used by one thread.
class ChoiceStream {
 public:
  // `stops` are those of the request.
  ChoiceStream(std::shared_ptr<const text::Tokenizer> tokenizer, const PreparedRequest& request,
               std::shared_ptr<const text::StopStrings> stops, int32_t choice,
               std::shared_ptr<const DeltaCallback> on_delta);

  // Calls back with the event's delta. True when the reply has ended, maybe before the engine knows: at a stop string.
  bool Push(const engine::EngineEvent& event);

 private:
  // Adds the text of `id`; true if a stop string is complete.
  bool AddToken(int32_t id, Delta* delta);
  void AddText(std::string_view piece, Delta* delta);
  void End(const engine::EngineEvent& event, Delta* delta);
  void AddPromptLogprobs(const sched::RequestEvent& event, Delta* delta);
  PositionLogprobs Convert(const sched::PositionLogprobs& from) const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const DeltaCallback> on_delta_;
  int32_t choice_;
  int64_t min_tokens_;
  bool include_stop_;
  bool wants_prompt_logprobs_;
  int64_t num_tokens_ = 0;
  text::Detokenizer detokenizer_;
  text::StopChecker stops_;
  std::unordered_map<int32_t, size_t> stop_tokens_;  // hidden special tokens that are spelled like a stop string
  std::vector<std::optional<PositionLogprobs>> prompt_logprobs_;
};

}  // namespace peng::api
