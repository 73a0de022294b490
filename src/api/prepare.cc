// SPDX-License-Identifier: Apache-2.0
#include "api/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "base/ascii.h"
#include "base/error.h"

namespace peng::api {
namespace {

constexpr double kGreedyBelow = 1e-5;
constexpr double kLowestTemperature = 0.01;  // smaller ones only add rounding
// Logits are multiplied by it or its inverse: beyond, they leave the range of a float.
constexpr double kLowestPenalty = 1e-4, kHighestPenalty = 1e4;

std::string Show(double value) { return base::Json(value).Dump(); }

Refusal Invalid(std::string field, std::string message) {
  return {Refusal::Kind::kInvalid, std::move(message), std::move(field)};
}

// "f must be in [0, 2], got 3.0."
Refusal OutOfRange(std::string field, std::string_view range, double value) {
  std::string message = fmt::format("{} must be {}, got {}.", field, range, std::isfinite(value) ? Show(value) : "NaN");
  return Invalid(std::move(field), std::move(message));
}
Refusal OutOfRange(std::string field, std::string_view range, int64_t value) {
  std::string message = fmt::format("{} must be {}, got {}.", field, range, value);
  return Invalid(std::move(field), std::move(message));
}

// What a generation_config.json may say of a field; requests are bound to the same.
struct ConfigField {
  const char* name;
  double low, high;  // inclusive
  const char* range;
  bool is_integer = false;
};
constexpr ConfigField kConfigFields[] = {
    {"temperature", 0, 2, "in [0, 2]"},
    {"top_p", std::numeric_limits<double>::min(), 1, "in (0, 1]"},
    {"top_k", -1, INT32_MAX, "an integer from -1 to 2147483647", true},
    {"min_p", 0, 1, "in [0, 1]"},
    {"repetition_penalty", kLowestPenalty, kHighestPenalty, "in [0.0001, 10000]"},
    {"max_new_tokens", 1, INT32_MAX, "an integer from 1 to 2147483647", true},
};

std::optional<double> ConfigNumber(const base::Json& config, std::string_view key) {
  const base::Json* value = config.Find(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->as_double();
}

// The value as CheckGenerationConfig lets it through: out of its range it counts as absent.
std::optional<int64_t> ConfigInteger(const base::Json& config, std::string_view key) {
  const std::optional<double> value = ConfigNumber(config, key);
  if (!value || !(*value >= INT32_MIN && *value <= INT32_MAX)) return std::nullopt;
  return static_cast<int64_t>(*value);
}

void FillDefaults(const base::Json& config, GenerationParams* p) {
  if (!p->temperature) p->temperature = ConfigNumber(config, "temperature").value_or(1.0);
  if (!p->top_p) p->top_p = ConfigNumber(config, "top_p").value_or(1.0);
  if (!p->top_k) p->top_k = ConfigInteger(config, "top_k").value_or(0);
  if (!p->min_p) p->min_p = ConfigNumber(config, "min_p").value_or(0.0);
  if (!p->repetition_penalty) p->repetition_penalty = ConfigNumber(config, "repetition_penalty").value_or(1.0);
}

bool Within(double value, double low, double high) { return value >= low && value <= high; }  // false for NaN

std::optional<Refusal> CheckSampling(const GenerationParams& p) {
  if (!Within(*p.temperature, 0, 2)) return OutOfRange("temperature", "in [0, 2]", *p.temperature);
  if (!(*p.top_p > 0 && *p.top_p <= 1)) return OutOfRange("top_p", "in (0, 1]", *p.top_p);
  if (*p.top_k < -1 || *p.top_k > INT32_MAX) {
    return OutOfRange("top_k", "0 or -1 (disable), or at least 1", *p.top_k);
  }
  if (!Within(*p.min_p, 0, 1)) return OutOfRange("min_p", "in [0, 1]", *p.min_p);
  if (!Within(p.presence_penalty, -2, 2)) return OutOfRange("presence_penalty", "in [-2, 2]", p.presence_penalty);
  if (!Within(p.frequency_penalty, -2, 2)) return OutOfRange("frequency_penalty", "in [-2, 2]", p.frequency_penalty);
  if (!(*p.repetition_penalty > 0)) return OutOfRange("repetition_penalty", "greater than zero", *p.repetition_penalty);
  if (!Within(*p.repetition_penalty, kLowestPenalty, kHighestPenalty)) {
    return OutOfRange("repetition_penalty", "in [0.0001, 10000]", *p.repetition_penalty);
  }
  if (p.n < 1 || p.n > kMaxChoices) return OutOfRange("n", fmt::format("in [1, {}]", kMaxChoices), p.n);
  if (p.n > 1 && *p.temperature < kGreedyBelow) {
    return Invalid("n", fmt::format("n must be 1 when using greedy sampling, got {}.", p.n));
  }
  return std::nullopt;
}

// A choice costs its copy of the prompt before anything is computed.
std::optional<Refusal> CheckPromptCopies(const GenerationParams& p, size_t prompt_tokens) {
  const int64_t most = kMaxPromptCopies / std::max<int64_t>(1, static_cast<int64_t>(prompt_tokens));
  if (p.n <= 1 || p.n <= most) return std::nullopt;
  return OutOfRange("n", fmt::format("at most {} for a prompt of {} tokens", most, prompt_tokens), p.n);
}

std::optional<Refusal> CheckLogprobs(const LlmParts& parts, const GenerationParams& p) {
  for (const auto& [field, kind, value] :
       {std::tuple{"logprobs", "sample", p.logprobs}, std::tuple{"prompt_logprobs", "prompt", p.prompt_logprobs}}) {
    if (!value) continue;
    if (*value < -1) return OutOfRange(field, "non-negative or -1", *value);
    const int64_t count = *value == -1 ? parts.vocab_size : *value;
    if (count > parts.max_logprobs) {
      return Invalid(field, fmt::format("Requested {} logprobs of {}, which is greater than max allowed: {}", kind,
                                        *value, parts.max_logprobs));
    }
  }
  return std::nullopt;
}

// The ids that the vocabulary does not have, as text; empty if it has all.
template <typename Ids, typename GetId>
std::string Unknown(const Ids& ids, int32_t vocab_size, GetId id_of) {
  std::string found;
  int shown = 0;
  for (const auto& item : ids) {
    const int32_t id = id_of(item);
    if (id >= 0 && id < vocab_size) continue;
    if (++shown > 8) return found + ", ...";
    found += (found.empty() ? "" : ", ") + std::to_string(id);
  }
  return found;
}

std::optional<Refusal> CheckTokenIds(const LlmParts& parts, const GenerationParams& p) {
  const auto self = [](int32_t id) { return id; };
  const auto refuse = [&](const char* field, const std::string& ids) {
    return Invalid(field, fmt::format("token_id(s) [{}] in {} contain out-of-vocab token ids. Vocabulary size: {}", ids,
                                      field, parts.vocab_size));
  };
  std::string bad = Unknown(p.logit_bias, parts.vocab_size, [](const auto& item) { return item.first; });
  if (!bad.empty()) return refuse("logit_bias", bad);
  bad = Unknown(p.stop_token_ids, parts.vocab_size, self);
  if (!bad.empty()) return refuse("stop_token_ids", bad);
  if (!p.allowed_token_ids) return std::nullopt;
  if (p.allowed_token_ids->empty()) return Invalid("allowed_token_ids", "allowed_token_ids must not be empty.");
  bad = Unknown(*p.allowed_token_ids, parts.vocab_size, self);
  if (!bad.empty()) return refuse("allowed_token_ids", bad);
  return std::nullopt;
}

template <typename T, typename GetId>
bool Ascending(const base::SharedList<T>& list, GetId id_of) {
  const auto not_below = [&](const T& a, const T& b) { return id_of(a) >= id_of(b); };
  return std::adjacent_find(list.begin(), list.end(), not_below) == list.end();
}

// In ascending order and each once: a client's list is as long as its body, a vocabulary is not.
void SortIds(base::SharedList<int32_t>* ids) {
  if (Ascending(*ids, [](int32_t id) { return id; })) return;
  std::vector<int32_t> sorted = ids->items();
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  *ids = std::move(sorted);
}

void SortBiases(base::SharedList<std::pair<int32_t, float>>* biases) {
  using Bias = std::pair<int32_t, float>;
  constexpr float kMost = 100;
  const auto fits = [](const Bias& b) { return b.second >= -kMost && b.second <= kMost; };
  if (Ascending(*biases, [](const Bias& b) { return b.first; }) && std::all_of(biases->begin(), biases->end(), fits)) {
    return;
  }
  std::vector<Bias> sorted = biases->items();
  std::stable_sort(sorted.begin(), sorted.end(), [](const Bias& a, const Bias& b) { return a.first < b.first; });
  size_t kept = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i + 1 < sorted.size() && sorted[i + 1].first == sorted[i].first) continue;  // the last one counts
    sorted[kept++] = {sorted[i].first, std::clamp(sorted[i].second, -kMost, kMost)};
  }
  sorted.resize(kept);
  *biases = std::move(sorted);
}

std::optional<Refusal> CheckPriority(const LlmParts& parts, const GenerationParams& p) {
  if (p.priority == 0 || parts.priority_scheduling) return std::nullopt;
  return Invalid("priority",
                 fmt::format("Got priority {} but Priority scheduling is not enabled. Start the server with "
                             "--scheduling-policy priority, or leave it out.",
                             p.priority));
}

std::optional<Refusal> CheckStops(const GenerationParams& p) {
  if (p.stop.size() > kMaxStopStrings) {
    return Invalid("stop", fmt::format("stop accepts at most {} strings, got {}.", kMaxStopStrings, p.stop.size()));
  }
  for (const std::string& stop : p.stop) {
    if (stop.empty()) return Invalid("stop", "stop cannot contain an empty string.");
    if (stop.size() > kMaxStopBytes) {
      return Invalid("stop",
                     fmt::format("stop accepts strings of at most {} bytes, got {}.", kMaxStopBytes, stop.size()));
    }
  }
  return std::nullopt;
}

std::optional<Refusal> ResolveLengths(const LlmParts& parts, size_t prompt_tokens, GenerationParams* p) {
  const int64_t room = parts.max_model_len - static_cast<int64_t>(prompt_tokens);
  if (room < 1) {
    return Invalid("prompt",
                   fmt::format("This model's maximum context length is {} tokens. However, your request has {} input "
                               "tokens. Please reduce the length of the input messages.",
                               parts.max_model_len, prompt_tokens));
  }
  if (p->max_tokens && *p->max_tokens < 1) return OutOfRange("max_tokens", "at least 1", *p->max_tokens);
  if (p->min_tokens < 0) return OutOfRange("min_tokens", "greater than or equal to 0", p->min_tokens);
  if (p->max_tokens && p->min_tokens > *p->max_tokens) {
    return OutOfRange("min_tokens", fmt::format("less than or equal to max_tokens={}", *p->max_tokens), p->min_tokens);
  }
  const int64_t config_limit = ConfigInteger(parts.generation_config, "max_new_tokens").value_or(room);
  const int64_t wanted = p->max_tokens.value_or(std::max<int64_t>(1, config_limit));
  p->max_tokens = std::min(wanted, room);
  p->min_tokens = std::min(p->min_tokens, *p->max_tokens);
  return std::nullopt;
}

// Cuts what the template wrote after the last message, so that the model goes on with it.
bool CutAfterFinalMessage(const base::Json& messages, std::string* rendered) {
  const base::Json* content = messages.as_array().back().Find("content");
  if (content == nullptr || !content->is_string()) return false;
  const std::string_view whole = content->as_string();
  const std::string_view trimmed = base::TrimSpace(whole);
  const size_t at = rendered->rfind(trimmed);
  if (trimmed.empty() || at == std::string::npos) return false;
  const std::string_view without_lead = whole.substr(static_cast<size_t>(trimmed.data() - whole.data()));
  const bool kept = rendered->compare(at, without_lead.size(), without_lead) == 0;
  rendered->resize(at + (kept ? without_lead : trimmed).size());
  return true;
}

// Tokenizing megabytes takes seconds and many times their memory. What cannot fit is refused before, and so is what
// would fit only if its tokens were far longer than those of any language.
size_t MaxTextBytes(const LlmParts& parts) {
  const auto context = static_cast<size_t>(parts.max_model_len);
  return std::min(context * parts.tokenizer->max_token_bytes(), std::max(kMinTextBytes, context * kTextBytesPerToken));
}

std::variant<std::string, Refusal> RenderChat(const LlmParts& parts, const ChatPrompt& chat) {
  if (parts.chat_template == nullptr) {
    return Invalid("messages",
                   "The model has no chat template. Start the server with --chat-template, or use /v1/completions.");
  }
  if (!chat.messages.is_array() || chat.messages.as_array().empty()) {
    return Invalid("messages", "messages must be a list of at least one message.");
  }
  text::ChatInput input{chat.messages, chat.tools, chat.kwargs,
                        chat.add_generation_prompt && !chat.continue_final_message};
  try {
    std::string rendered = parts.chat_template->Render(input);
    if (chat.continue_final_message && !CutAfterFinalMessage(chat.messages, &rendered)) {
      return Invalid("continue_final_message",
                     "continue_final_message is set but the final message does not appear in the chat after applying "
                     "the chat template.");
    }
    return rendered;
  } catch (const base::Error& e) {  // the template's own refusal
    return Invalid("messages", e.what());
  }
}

}  // namespace

void CheckGenerationConfig(const base::Json& config, const std::string& where) {
  for (const ConfigField& field : kConfigFields) {
    const base::Json* value = config.Find(field.name);
    if (value == nullptr || value->is_null()) continue;
    const double number = value->is_number() ? value->as_double() : std::numeric_limits<double>::quiet_NaN();
    if (Within(number, field.low, field.high) && (!field.is_integer || std::trunc(number) == number)) continue;
    throw base::Error(
        base::ErrorKind::kModelFile, base::Printable(where, 4096),
        fmt::format("\"{}\" is {}, must be {}", field.name, base::Printable(value->Dump(), 80), field.range),
        "correct it, or use --generation-config vllm, which leaves the file's values out");
  }
}

std::optional<Refusal> ResolveParams(const LlmParts& parts, size_t prompt_tokens, GenerationParams* params) {
  FillDefaults(parts.generation_config, params);
  if (auto refusal = CheckSampling(*params)) return refusal;
  if (auto refusal = CheckPromptCopies(*params, prompt_tokens)) return refusal;
  if (auto refusal = CheckLogprobs(parts, *params)) return refusal;
  if (auto refusal = CheckTokenIds(parts, *params)) return refusal;
  if (auto refusal = CheckStops(*params)) return refusal;
  if (auto refusal = CheckPriority(parts, *params)) return refusal;
  if (auto refusal = ResolveLengths(parts, prompt_tokens, params)) return refusal;
  if (*params->temperature < kGreedyBelow) {
    params->temperature = 0.0;
    params->top_p = 1.0;
    params->top_k = 0;
    params->min_p = 0.0;
  } else {
    params->temperature = std::max(*params->temperature, kLowestTemperature);
  }
  if (*params->top_k == -1) params->top_k = 0;
  SortBiases(&params->logit_bias);
  SortIds(&params->stop_token_ids);
  if (params->allowed_token_ids) SortIds(&*params->allowed_token_ids);
  return std::nullopt;
}

std::variant<std::vector<std::vector<int32_t>>, Refusal> EncodeBadWords(const text::Tokenizer& tokenizer,
                                                                        const std::vector<std::string>& words) {
  std::vector<std::vector<int32_t>> sequences;
  for (const std::string& word : words) {
    if (word.empty()) return Invalid("bad_words", "bad_words cannot contain an empty string.");
    if (word.size() > kMaxBadWordBytes) {
      return Invalid("bad_words", fmt::format("bad_words accepts strings of at most {} bytes, got {}.",
                                              kMaxBadWordBytes, word.size()));
    }
    const std::string stem = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    const std::vector<int32_t> bare = tokenizer.Encode(stem, false);
    const std::vector<int32_t> spaced = tokenizer.Encode(" " + stem, false);
    if (!bare.empty()) sequences.push_back(bare);
    if (!spaced.empty() && !bare.empty() && spaced[0] != bare[0] && spaced.size() == bare.size()) {
      sequences.push_back(spaced);
    }
    if (sequences.size() > kMaxBadWords) {
      return Invalid("bad_words", fmt::format("bad_words accepts at most {} token sequences.", kMaxBadWords));
    }
  }
  return sequences;
}

std::optional<Refusal> CheckAllowedTokens(const LlmParts& parts, const GenerationParams& params,
                                          const std::vector<std::vector<int32_t>>& bad_words) {
  if (!params.allowed_token_ids) return std::nullopt;
  std::vector<int32_t> few = params.min_tokens > 0 ? parts.eos_token_ids : std::vector<int32_t>();
  for (const std::vector<int32_t>& word : bad_words) {
    if (word.size() == 1) few.push_back(word[0]);
  }
  std::sort(few.begin(), few.end());
  const base::SharedList<int32_t> stops = params.min_tokens > 0 ? params.stop_token_ids : base::SharedList<int32_t>();
  for (const int32_t id : *params.allowed_token_ids) {
    const bool forbidden =
        std::binary_search(few.begin(), few.end(), id) || std::binary_search(stops.begin(), stops.end(), id);
    if (!forbidden) return std::nullopt;
  }
  return Invalid("allowed_token_ids",
                 "allowed_token_ids leaves no token to choose: min_tokens forbids those that end the reply, bad_words "
                 "the others.");
}

std::variant<std::vector<int32_t>, Refusal> EncodePrompt(const LlmParts& parts, const Prompt& prompt,
                                                         std::optional<bool> add_special_tokens) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
    if (ids->empty()) return Invalid("prompt", "The prompt cannot be empty.");
    const std::string bad = Unknown(*ids, parts.vocab_size, [](int32_t id) { return id; });
    if (!bad.empty()) {
      return Invalid("prompt",
                     fmt::format("Token id(s) {} are out of vocabulary. Vocabulary size: {}", bad, parts.vocab_size));
    }
    return *ids;
  }
  std::string rendered;
  const auto* chat = std::get_if<ChatPrompt>(&prompt);
  if (chat != nullptr) {
    auto outcome = RenderChat(parts, *chat);
    if (auto* refusal = std::get_if<Refusal>(&outcome)) return std::move(*refusal);
    rendered = std::move(std::get<std::string>(outcome));
  }
  const std::string& text = chat != nullptr ? rendered : std::get<std::string>(prompt);
  const size_t most = MaxTextBytes(parts);
  if (text.size() > most) {
    return Invalid(
        "prompt",
        fmt::format("This model's maximum context length is {} tokens, at most {} bytes of text. However, your "
                    "request has {} bytes. Please reduce the length of the input messages.",
                    parts.max_model_len, most, text.size()));
  }
  std::vector<int32_t> ids = parts.tokenizer->Encode(text, add_special_tokens.value_or(chat == nullptr));
  // A BOS alone gives the model something to start from, but no client means that by an empty prompt.
  if (ids.empty() || (chat == nullptr && text.empty())) return Invalid("prompt", "The prompt cannot be empty.");
  return ids;
}

}  // namespace peng::api
