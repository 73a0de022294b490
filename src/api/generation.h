// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/shared_list.h"
#include "engine/engine_client.h"

namespace peng::api {

// Why a request is not run, as a value: the fault is the caller's, or the engine cannot take more.
struct Refusal {
  enum class Kind : uint8_t {
    kInvalid,      // a value out of range
    kUnavailable,  // not ready, draining or full
    kInternal,     // the engine is dead
  };
  Kind kind = Kind::kInvalid;
  std::string message;
  std::string field;            // name of the parameter at fault; may be empty
  int retry_after_seconds = 0;  // kUnavailable: when trying again is worth it, about; 0 = not known
};

// What shapes the sampled text. Unset values take the model's generation_config, then the neutral default.
struct GenerationParams {
  std::optional<double> temperature;         // [0, 2]; below 1e-5 greedy
  std::optional<double> top_p;               // (0, 1]
  std::optional<int64_t> top_k;              // 0 or -1 = off
  std::optional<double> min_p;               // [0, 1]
  std::optional<double> repetition_penalty;  // > 0
  double presence_penalty = 0;               // [-2, 2]
  double frequency_penalty = 0;              // [-2, 2]
  std::optional<int64_t> seed;               // unset or -1 = random
  int64_t n = 1;                             // choices

  std::optional<int64_t> max_tokens;  // generated tokens per choice; unset = the rest of the context
  int64_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  base::SharedList<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;

  base::SharedList<std::pair<int32_t, float>> logit_bias;  // the last of an id counts; clamped to [-100, 100]
  std::optional<base::SharedList<int32_t>> allowed_token_ids;
  std::vector<std::string> bad_words;

  std::optional<int64_t> logprobs;         // 0 = only the sampled token, k = and the k most probable
  std::optional<int64_t> prompt_logprobs;  // as above, for the prompt

  int64_t priority = 0;  // lower = earlier
  std::string cache_salt;
};

// A conversation for the model's chat template.
struct ChatPrompt {
  base::Json messages;  // array of objects with "role" and "content"
  base::Json tools;     // array or null
  base::Json kwargs;    // object or null: more variables of the template
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

using Prompt = std::variant<std::string, std::vector<int32_t>, ChatPrompt>;

struct GenerateRequest {
  Prompt prompt;
  GenerationParams params;
  // The BOS of a text. Chat templates write their own: std::nullopt is true for texts and false for conversations.
  std::optional<bool> add_special_tokens;
};

// A checked and tokenized request, ready to start. Plain data.
struct PreparedRequest {
  std::vector<int32_t> prompt_ids;
  // Resolved: every optional but seed, logprobs and allowed ids has its value; lists of ids are in ascending order and
  // have each once.
  GenerationParams params;
  base::SharedList<std::vector<int32_t>> bad_words;
};

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
  int32_t rank = 0;   // 1 = most probable
  std::string bytes;  // what the token adds to the text; may be part of a character
};

struct PositionLogprobs {
  TokenLogprob sampled;
  std::vector<TokenLogprob> top;  // most probable first; without the sampled one if that is not among them
};

enum class Finish : uint8_t { kNone, kStop, kLength, kAbort, kError };
const char* FinishName(Finish finish);  // "stop", "length", "abort", "error"

// What one engine event means for one choice.
struct Delta {
  int32_t choice = 0;
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<PositionLogprobs> logprobs;                        // one per token id, if asked for
  std::vector<std::optional<PositionLogprobs>> prompt_logprobs;  // of every prompt token, once, if asked for
  Finish finish = Finish::kNone;
  std::variant<std::monostate, std::string, int32_t> stop_reason;  // the stop string or stop token id that ended it
  std::string error;                                               // with Finish::kError
  bool error_of_request = false;                                   // what the request asks for is the cause
  int32_t cached_tokens = 0;                                       // prompt tokens taken from the prefix cache
  int32_t preemptions = 0;                                         // so far
  engine::RequestTimes times;
};

// Joins `delta` to what came before it of the same choice.
void AppendDelta(const Delta& delta, Delta* whole);

// Called on the dispatcher thread of the Llm, one call at a time; must not block.
using DeltaCallback = std::function<void(const Delta&)>;

// A running request. Dropping it, or Cancel, ends the work of all its choices within one step. A call that is under way
// on the dispatcher thread may still finish after that.
class Generation {
 public:
  virtual ~Generation() = default;
  virtual void Cancel() = 0;
};

}  // namespace peng::api
