// SPDX-License-Identifier: Apache-2.0
#include "server/openai_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "server/chat_messages.h"
#include "server/json_fields.h"
#include "server/unknown_fields.h"

namespace peng::server {
namespace {

using base::Json;

// Parameters of vLLM and OpenAI that change the reply and are not built yet. Refusing them by name is better than a
// reply that silently ignores them. `harmless` is the value that asks for nothing.
struct Unsupported {
  std::string_view name;
  Json harmless;
};

const std::vector<Unsupported>& UnsupportedFields() {
  static const std::vector<Unsupported> kFields{
      {"structured_outputs", {}},
      {"guided_json", {}},
      {"guided_regex", {}},
      {"guided_choice", {}},
      {"guided_grammar", {}},
      {"guided_decoding_backend", {}},
      {"use_beam_search", false},
      {"length_penalty", 1.0},
      {"suffix", {}},
      {"prompt_embeds", {}},
      {"truncate_prompt_tokens", {}},
      {"logprob_token_ids", {}},
      {"thinking_token_budget", -1},
      {"repetition_detection", {}},
      {"kv_transfer_params", {}},
      {"vllm_xargs", {}},
      {"stream_interval", 1},
      {"best_of", 1},
      {"chat_template", {}},
      {"functions", {}},
      {"function_call", "none"},
      {"modalities", {}},
      {"audio", {}},
      {"lora_request", {}},
      {"spaces_between_special_tokens", true},
      {"return_prompt_text", false},
      {"logits_processors", {}},
      {"mm_processor_kwargs", {}},
      {"media_io_kwargs", {}},
  };
  return kFields;
}

bool Same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  return a == b;
}

void RefuseUnsupported(JsonFields& f) {
  for (const Unsupported& field : UnsupportedFields()) {
    const Json* value = f.Get(field.name);
    if (value == nullptr || Same(*value, field.harmless)) continue;
    if (value->is_array() && value->as_array().empty()) continue;
    const std::string name(field.name);
    f.Fail(BadRequest(name + " is not supported by this server.", name));
  }
  const Json* format = f.Object("response_format");
  if (format == nullptr) return;
  const Json* type = format->Find("type");
  if (type == nullptr || !type->is_string()) {
    f.Fail(SchemaError("response_format.type: Field required.", "response_format"));
  } else if (type->as_string() != "text") {
    f.Fail(BadRequest("response_format \"" + base::Printable(type->as_string(), 64) +
                          "\" is not supported by this server yet; use \"text\".",
                      "response_format"));
  }
}

void ReadStop(JsonFields& f, api::GenerationParams* p) {
  const Json* value = f.Get("stop");
  if (value == nullptr) return;
  if (value->is_string()) {
    p->stop = {value->as_string()};
  } else if (auto strings = f.Strings("stop")) {
    p->stop = std::move(*strings);
  }
}

void ReadLogitBias(JsonFields& f, api::GenerationParams* p) {
  const Json* object = f.Object("logit_bias");
  if (object == nullptr) return;
  std::vector<std::pair<int32_t, float>> biases;
  for (const auto& [key, value] : object->as_object()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      return f.Fail(
          BadRequest("logit_bias keys must be token ids, got \"" + base::Printable(key, 64) + "\".", "logit_bias"));
    }
    if (!value.is_number()) return f.FailType("logit_bias", "map of token ids to numbers", value);
    biases.emplace_back(id, static_cast<float>(value.as_double()));
  }
  p->logit_bias = std::move(biases);
}

void ReadSampling(JsonFields& f, api::GenerationParams* p) {
  p->temperature = f.Number("temperature");
  p->top_p = f.Number("top_p");
  p->top_k = f.Int("top_k");
  p->min_p = f.Number("min_p");
  p->repetition_penalty = f.Number("repetition_penalty");
  p->presence_penalty = f.Number("presence_penalty").value_or(0);
  p->frequency_penalty = f.Number("frequency_penalty").value_or(0);
  p->seed = f.Int("seed");
  p->n = f.Int("n").value_or(1);
  p->max_tokens = f.Int("max_tokens");
  p->min_tokens = f.Int("min_tokens").value_or(0);
  p->ignore_eos = f.Bool("ignore_eos").value_or(false);
  ReadStop(f, p);
  p->stop_token_ids = f.TokenIds("stop_token_ids").value_or(std::vector<int32_t>());
  p->include_stop_str_in_output = f.Bool("include_stop_str_in_output").value_or(false);
  p->skip_special_tokens = f.Bool("skip_special_tokens").value_or(true);
  ReadLogitBias(f, p);
  p->allowed_token_ids = f.TokenIds("allowed_token_ids");
  p->bad_words = f.Strings("bad_words").value_or(std::vector<std::string>());
  p->prompt_logprobs = f.Int("prompt_logprobs");
  p->priority = f.Int("priority").value_or(0);
}

void ReadCacheSalt(JsonFields& f, api::GenerationParams* p) {
  p->cache_salt = f.String("cache_salt").value_or("");
  const bool present = f.Get("cache_salt") != nullptr;
  const bool forbidden = p->cache_salt.find_first_of(std::string_view("@/\\\0", 4)) != std::string::npos;
  if (present && (p->cache_salt.empty() || p->cache_salt.size() > 128 || forbidden)) {
    f.Fail(
        BadRequest("cache_salt must be a string of 1 to 128 characters without '@', '/', '\\' and NUL.", "cache_salt"));
  }
}

void ReadStreamOptions(JsonFields& f, CommonRequest* r) {
  r->stream = f.Bool("stream").value_or(false);
  const Json* options = f.Object("stream_options");
  if (options == nullptr) return;
  if (!r->stream) {
    return f.Fail(BadRequest("Stream options can only be defined when `stream=True`.", "stream_options"));
  }
  JsonFields o(*options, "stream_options");
  r->include_usage = o.Bool("include_usage").value_or(false);
  r->continuous_usage = r->include_usage && o.Bool("continuous_usage_stats").value_or(false);
  if (o.failed()) f.Fail(*o.error());
}

void CheckLogprobs(JsonFields& f, const CommonRequest& r, std::optional<int64_t> logprobs, const char* name) {
  if (logprobs && *logprobs < -1) f.Fail(BadRequest(fmt::format("`{}` must be a positive value or -1.", name), name));
  if (!r.params.prompt_logprobs) return;
  if (r.stream && *r.params.prompt_logprobs != 0) {
    f.Fail(BadRequest("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs"));
  }
  if (*r.params.prompt_logprobs < -1) {
    f.Fail(BadRequest("`prompt_logprobs` must be a positive value or -1.", "prompt_logprobs"));
  }
}

// Fields that are known and change nothing here. Those of OpenAI that name the caller or are its own bookkeeping are
// silent as long as they are of their type; of the others the reply tells that they have no effect.
void ReadIdleFields(JsonFields& f, std::vector<std::string>* idle) {
  struct Field {
    const char* name;
    bool (Json::*is_harmless)() const;  // null = always told
  };
  static constexpr Field kFields[]{{"user", &Json::is_string},
                                   {"store", &Json::is_bool},
                                   {"metadata", &Json::is_object},
                                   {"service_tier", &Json::is_string},
                                   {"parallel_tool_calls", &Json::is_bool},
                                   {"safety_identifier", &Json::is_string},
                                   {"prompt_cache_key", &Json::is_string},
                                   {"verbosity", &Json::is_string},
                                   {"prediction", &Json::is_object},
                                   {"prompt_cache_retention", &Json::is_string},
                                   {"session_id", nullptr},
                                   {"include_reasoning", nullptr},
                                   {"truncation_side", nullptr}};
  for (const Field& field : kFields) {
    const Json* value = f.Get(field.name);
    if (value == nullptr || (field.is_harmless != nullptr && (value->*field.is_harmless)())) continue;
    idle->push_back(field.name);
  }
}

void ReadCommon(JsonFields& f, CommonRequest* r) {
  r->model = f.String("model").value_or("");
  ReadSampling(f, &r->params);
  ReadCacheSalt(f, &r->params);
  ReadStreamOptions(f, r);
  r->add_special_tokens = f.Bool("add_special_tokens");
  r->request_id = f.String("request_id").value_or("");
  r->return_token_ids = f.Bool("return_token_ids").value_or(false);
  r->tokens_as_ids = f.Bool("return_tokens_as_token_ids").value_or(false);
  RefuseUnsupported(f);
  ReadIdleFields(f, &r->idle_fields);
}

void ReadChatLogprobs(JsonFields& f, ChatRequest* r) {
  const bool wanted = f.Bool("logprobs").value_or(false);
  const auto top = f.Int("top_logprobs");
  CheckLogprobs(f, *r, top, "top_logprobs");
  if (top && *top != 0 && !wanted) {
    f.Fail(BadRequest("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs"));
  }
  if (wanted) r->params.logprobs = top.value_or(0);
}

void ReadTools(JsonFields& f, ChatRequest* r) {
  const Json* tools = f.Array("tools");
  const Json* choice = f.Get("tool_choice");
  if (tools == nullptr) {
    if (choice != nullptr && *choice != Json("none")) {
      f.Fail(BadRequest("When using `tool_choice`, `tools` must be set.", "tool_choice"));
    }
    return;
  }
  if (tools->as_array().empty()) {
    return f.Fail(BadRequest("`tools` must not be an empty array. Leave it out to use no tools.", "tools"));
  }
  if (choice == nullptr || *choice != Json("none")) {
    return f.Fail(
        BadRequest("Tool calls are not supported by this server yet: replies are not searched for calls. Set "
                   "tool_choice to \"none\" to only show the tools to the model.",
                   "tool_choice"));
  }
  r->chat.tools = *tools;
}

// What the request has a field for is not set a second time among the variables of the template.
void ReadTemplateVariables(JsonFields& f, Json* variables) {
  const Json* kwargs = f.Object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  for (const char* field : {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message",
                            "chat_template", "tokenize"}) {
    if (kwargs->Find(field) == nullptr) continue;
    return f.Fail(BadRequest(
        fmt::format("chat_template_kwargs cannot set `{}`: it is no variable, but a field of the request.", field),
        fmt::format("chat_template_kwargs.{}", field)));
  }
  *variables = *kwargs;
}

void ReadTemplateOptions(JsonFields& f, ChatRequest* r) {
  const auto add = f.Bool("add_generation_prompt");
  const auto proceed = f.Bool("continue_final_message");
  if (add.value_or(false) && proceed.value_or(false)) {
    f.Fail(BadRequest("Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                      "continue_final_message"));
  }
  r->chat.add_generation_prompt = add.value_or(true);
  r->chat.continue_final_message = proceed.value_or(false);
  ReadTemplateVariables(f, &r->chat.kwargs);
  if (const Json* documents = f.Array("documents")) r->chat.kwargs.Set("documents", *documents);
  const auto effort = f.String("reasoning_effort");
  if (!effort) return;
  static constexpr std::array kEfforts{"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  if (std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end()) {
    return f.Fail(
        SchemaError("reasoning_effort: Input should be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'.",
                    "reasoning_effort"));
  }
  r->chat.kwargs.Set("reasoning_effort", *effort);
  if (*effort != "none" && r->chat.kwargs.Find("enable_thinking") == nullptr) {
    r->chat.kwargs.Set("enable_thinking", true);
  }
}

void ReadMessages(JsonFields& f, api::ChatPrompt* chat) {
  const Json* messages = f.Get("messages");
  if (messages == nullptr) return f.Fail(SchemaError("messages: Field required.", "messages"));
  auto outcome = NormalizeMessages(*messages);
  if (auto* error = std::get_if<ApiError>(&outcome)) return f.Fail(std::move(*error));
  chat->messages = std::move(std::get<Json>(outcome));
}

void ReadPrompts(JsonFields& f, CompletionRequest* r) {
  const Json* prompt = f.Get("prompt");
  if (prompt == nullptr) return f.Fail(SchemaError("prompt: Field required.", "prompt"));
  if (prompt->is_string()) {
    r->prompts.emplace_back(prompt->as_string());
    return;
  }
  if (!prompt->is_array()) return f.FailType("prompt", "string, list of strings or list of token ids", *prompt);
  const Json::Array& items = prompt->as_array();
  if (items.empty()) return f.Fail(BadRequest("The prompt cannot be empty.", "prompt"));
  if (items[0].is_int()) {
    if (auto ids = f.TokenIds("prompt")) r->prompts.emplace_back(std::move(*ids));
    return;
  }
  if (items.size() > kMaxPrompts) {
    return f.Fail(
        BadRequest(fmt::format("prompt accepts at most {} prompts, got {}.", kMaxPrompts, items.size()), "prompt"));
  }
  for (const Json& item : items) {
    if (item.is_string()) {
      r->prompts.emplace_back(item.as_string());
    } else if (auto ids = item.is_array() ? ToTokenIds(item) : std::nullopt) {
      r->prompts.emplace_back(std::move(*ids));
    } else {
      return f.FailType("prompt", "string, list of strings or list of token ids", item);
    }
  }
}

std::vector<std::string> UnknownFields(const JsonFields& fields, const Json& body) {
  std::vector<std::string> names = fields.Unknown();
  AddNestedUnknownFields(body, &names);
  return names;
}

}  // namespace

std::variant<ChatRequest, ApiError> ParseChatRequest(const Json& body) {
  JsonFields f(body);
  ChatRequest r;
  ReadMessages(f, &r.chat);
  ReadCommon(f, &r);
  if (const auto limit = f.Int("max_completion_tokens")) {
    if (*limit < 1) {
      f.Fail(BadRequest(fmt::format("max_completion_tokens must be at least 1, got {}.", *limit),
                        "max_completion_tokens"));
    }
    r.params.max_tokens = limit;
  }
  ReadChatLogprobs(f, &r);
  ReadTools(f, &r);
  ReadTemplateOptions(f, &r);
  r.echo = f.Bool("echo").value_or(false);
  if (f.failed()) return *f.error();
  const Json& last = r.chat.messages.as_array().back();
  r.role =
      r.chat.add_generation_prompt && !r.chat.continue_final_message ? "assistant" : last.Find("role")->as_string();
  r.unknown_fields = UnknownFields(f, body);
  return r;
}

std::variant<CompletionRequest, ApiError> ParseCompletionRequest(const Json& body) {
  JsonFields f(body);
  CompletionRequest r;
  ReadPrompts(f, &r);
  ReadCommon(f, &r);
  r.echo = f.Bool("echo").value_or(false);
  r.params.logprobs = f.Int("logprobs");
  CheckLogprobs(f, r, r.params.logprobs, "logprobs");
  if (!r.params.max_tokens) r.params.max_tokens = 16;
  if (r.echo && *r.params.max_tokens == 0) {
    r.echo_only = true;
    r.params.max_tokens = 1;
    r.params.min_tokens = 0;
  }
  if (r.echo && r.params.logprobs && !r.params.prompt_logprobs) r.params.prompt_logprobs = r.params.logprobs;
  if (f.failed()) return *f.error();
  r.unknown_fields = UnknownFields(f, body);
  return r;
}

std::variant<TokenizeRequest, ApiError> ParseTokenizeRequest(const Json& body) {
  JsonFields f(body);
  TokenizeRequest r;
  r.model = f.String("model").value_or("");
  r.add_special_tokens = f.Bool("add_special_tokens");
  r.return_token_strs = f.Bool("return_token_strs").value_or(false);
  if (f.Get("messages") != nullptr) {
    ChatRequest chat;
    ReadMessages(f, &chat.chat);
    if (const Json* tools = f.Array("tools")) chat.chat.tools = *tools;
    ReadTemplateOptions(f, &chat);
    r.prompt = std::move(chat.chat);
  } else if (auto prompt = f.String("prompt")) {
    r.prompt = std::move(*prompt);
  } else {
    f.Fail(SchemaError("prompt: Field required.", "prompt"));
  }
  if (f.failed()) return *f.error();
  r.unknown_fields = UnknownFields(f, body);
  return r;
}

std::variant<DetokenizeRequest, ApiError> ParseDetokenizeRequest(const Json& body) {
  JsonFields f(body);
  DetokenizeRequest r;
  r.model = f.String("model").value_or("");
  auto ids = f.TokenIds("tokens");
  if (!ids) f.Fail(SchemaError("tokens: Field required.", "tokens"));
  if (f.failed()) return *f.error();
  r.tokens = std::move(*ids);
  r.unknown_fields = UnknownFields(f, body);
  return r;
}

}  // namespace peng::server
