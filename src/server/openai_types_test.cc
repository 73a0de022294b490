// SPDX-License-Identifier: Apache-2.0
#include "server/openai_types.h"

#include <gtest/gtest.h>

#include "server/json_body.h"

namespace peng::server {
namespace {

using base::Json;

Json Parse(const std::string& text) {
  auto parsed = base::ParseJson(text);
  if (std::holds_alternative<base::JsonError>(parsed)) throw std::runtime_error("bad JSON in test: " + text);
  return std::get<Json>(parsed);
}

std::string Chat(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) + "}";
}
std::string Complete(const std::string& more) { return R"({"prompt":"hi")" + (more.empty() ? "" : "," + more) + "}"; }

ChatRequest GoodChat(const std::string& body) {
  auto outcome = ParseChatRequest(Parse(body));
  if (auto* error = std::get_if<ApiError>(&outcome)) throw std::runtime_error(error->message);
  return std::get<ChatRequest>(outcome);
}
CompletionRequest GoodCompletion(const std::string& body) {
  auto outcome = ParseCompletionRequest(Parse(body));
  if (auto* error = std::get_if<ApiError>(&outcome)) throw std::runtime_error(error->message);
  return std::get<CompletionRequest>(outcome);
}

struct BadBody {
  std::string body;
  const char* param;
  const char* message;
};

void ExpectRefused(const BadBody& bad, const std::optional<ApiError>& error) {
  ASSERT_TRUE(error) << bad.body;
  EXPECT_EQ(error->status, 400) << bad.body;
  EXPECT_EQ(error->param, bad.param) << bad.body;
  EXPECT_NE(error->message.find(bad.message), std::string::npos) << bad.body << "\n" << error->message;
}

template <typename T>
std::optional<ApiError> ErrorOf(const std::variant<T, ApiError>& outcome) {
  if (const auto* error = std::get_if<ApiError>(&outcome)) return *error;
  return std::nullopt;
}

TEST(OpenAiTypes, ChatFaults) {
  const BadBody cases[] = {
      {"[]", "", "must be a JSON object"},
      {"{}", "messages", "messages: Field required."},
      {R"({"messages":[]})", "messages", "at least 1 item"},
      {R"({"messages":"hi"})", "messages", "valid list, got string"},
      {R"({"messages":[1]})", "messages.0", "valid object"},
      {R"({"messages":[{"content":"x"}]})", "messages.0.role", "Field required"},
      {R"({"messages":[{"role":"king","content":"x"}]})", "messages.0.role", "got 'king'"},
      {R"({"messages":[{"role":"user"}]})", "messages.0.content", "Field required"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages.0.content", "got integer"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})", "messages.0.content",
       "\"image_url\" are not supported"},
      {Chat(R"("temperature":"hot")"), "temperature", "valid number, got string"},
      {Chat(R"("seed":18446744073709551616)"), "seed", "64-bit integer"},
      {Chat(R"("n":1.5)"), "n", "integer"},
      {Chat(R"("stop":[1])"), "stop", "list of strings"},
      {Chat(R"("stop":5)"), "stop", "list"},
      {Chat(R"("stream":"yes")"), "stream", "boolean"},
      {Chat(R"("stream_options":{"include_usage":true})"), "stream_options", "only be defined when `stream=True`"},
      {Chat(R"("logit_bias":{"x":1})"), "logit_bias", "must be token ids, got \"x\""},
      {Chat(R"("logit_bias":{"1":"a"})"), "logit_bias", "got string"},
      {Chat(R"("top_logprobs":2)"), "top_logprobs", "`logprobs` must be set to true"},
      {Chat(R"("logprobs":true,"top_logprobs":-2)"), "top_logprobs", "positive value or -1"},
      {Chat(R"("stream":true,"prompt_logprobs":1)"), "prompt_logprobs", "not available when `stream=True`"},
      {Chat(R"("tools":[])"), "tools", "must not be an empty array"},
      {Chat(R"("tool_choice":"auto")"), "tool_choice", "`tools` must be set"},
      {Chat(R"("tools":[{"type":"function"}])"), "tool_choice", "not supported by this server yet"},
      {Chat(R"("response_format":{"type":"json_object"})"), "response_format", "\"json_object\" is not supported"},
      {Chat(R"("guided_json":{})"), "guided_json", "guided_json is not supported"},
      {Chat(R"("structured_outputs":{"regex":"a"})"), "structured_outputs", "is not supported"},
      {Chat(R"("use_beam_search":true)"), "use_beam_search", "is not supported"},
      {Chat(R"("best_of":4)"), "best_of", "is not supported"},
      {Chat(R"("reasoning_effort":"huge")"), "reasoning_effort", "Input should be 'none'"},
      {Chat(R"("cache_salt":"")"), "cache_salt", "1 to 128 characters"},
      {Chat(R"("chat_template_kwargs":{"messages":[]})"), "chat_template_kwargs.messages", "cannot set `messages`"},
      {Chat(R"("chat_template_kwargs":{"tools":[]})"), "chat_template_kwargs.tools", "cannot set `tools`"},
      {Chat(R"("chat_template_kwargs":[])"), "chat_template_kwargs", "object"},
      {Chat(R"("add_generation_prompt":true,"continue_final_message":true)"), "continue_final_message",
       "Cannot set both"},
  };
  for (const BadBody& bad : cases) ExpectRefused(bad, ErrorOf(ParseChatRequest(Parse(bad.body))));
}

TEST(OpenAiTypes, CompletionFaults) {
  const BadBody cases[] = {
      {"{}", "prompt", "prompt: Field required."},
      {R"({"prompt":[]})", "prompt", "cannot be empty"},
      {R"({"prompt":5})", "prompt", "got integer"},
      {R"({"prompt":[1,"a"]})", "prompt", "token ids"},
      {R"({"prompt":[-1]})", "prompt", "not negative"},
      {R"({"prompt":["a",5]})", "prompt", "got integer"},
      {Complete(R"("logprobs":true)"), "logprobs", "integer, got boolean"},
      {Complete(R"("logprobs":-2)"), "logprobs", "positive value or -1"},
      {Complete(R"("suffix":"x")"), "suffix", "is not supported"},
  };
  for (const BadBody& bad : cases) ExpectRefused(bad, ErrorOf(ParseCompletionRequest(Parse(bad.body))));
}

TEST(OpenAiTypes, ChatDefaultsAndValues) {
  const ChatRequest plain = GoodChat(Chat(""));
  EXPECT_FALSE(plain.params.temperature);
  EXPECT_FALSE(plain.params.max_tokens);
  EXPECT_FALSE(plain.params.logprobs);
  EXPECT_EQ(plain.params.n, 1);
  EXPECT_TRUE(plain.chat.add_generation_prompt);
  EXPECT_EQ(plain.role, "assistant");

  const ChatRequest full = GoodChat(Chat(
      R"("temperature":0,"top_p":0.5,"top_k":7,"min_p":0.1,"seed":-1,"max_tokens":5,"max_completion_tokens":6,"n":2,)"
      R"("logprobs":true,"top_logprobs":3,"stop":"x","logit_bias":{"5":-100},"allowed_token_ids":[1,2],)"
      R"("presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.1,"min_tokens":1,"ignore_eos":true,)"
      R"("stop_token_ids":[9],"priority":-3,"stream":true,"stream_options":{"include_usage":true},)"
      R"("request_id":"r1","return_token_ids":true,"user":null,"reasoning_effort":"low")"));
  EXPECT_EQ(full.params.temperature, 0.0);
  EXPECT_EQ(full.params.max_tokens, 6);
  EXPECT_EQ(full.params.logprobs, 3);
  EXPECT_EQ(full.params.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(full.params.logit_bias[0].first, 5);
  EXPECT_EQ(full.params.priority, -3);
  EXPECT_TRUE(full.stream && full.include_usage && !full.continuous_usage && full.return_token_ids);
  EXPECT_EQ(*full.chat.kwargs.Find("enable_thinking"), Json(true));
  EXPECT_TRUE(full.unknown_fields.empty());
}

TEST(OpenAiTypes, UnknownFieldsAreNamedNotRefused) {
  const ChatRequest request = GoodChat(Chat(R"("user":"u","store":true,"metadata":{},"foo":1,"bar":null)"));
  EXPECT_EQ(request.unknown_fields, (std::vector<std::string>{"foo", "bar"}));
}

TEST(OpenAiTypes, MessagesAreNormalized) {
  const ChatRequest request = GoodChat(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"opts":1},)"
      R"({"role":"assistant","content":null,"tool_calls":[]},{"role":"assistant","reasoning_content":"r"},)"
      R"({"role":"user","content":""}]})");
  const Json::Array& messages = request.chat.messages.as_array();
  EXPECT_EQ(*messages[0].Find("content"), Json("a\nb"));
  EXPECT_TRUE(messages[1].Find("content")->is_null());
  EXPECT_EQ(*messages[2].Find("reasoning"), Json("r"));
}

TEST(OpenAiTypes, CompletionPrompts) {
  EXPECT_EQ(GoodCompletion(Complete("")).params.max_tokens, 16);
  EXPECT_EQ(GoodCompletion(Complete(R"("max_tokens":null)")).params.max_tokens, 16);
  EXPECT_EQ(GoodCompletion(R"({"prompt":["a","b"]})").prompts.size(), 2U);
  EXPECT_EQ(GoodCompletion(R"({"prompt":[1,2,3]})").prompts.size(), 1U);
  EXPECT_EQ(GoodCompletion(R"({"prompt":[[1,2],[3]]})").prompts.size(), 2U);
  const CompletionRequest echo = GoodCompletion(Complete(R"("echo":true,"max_tokens":0,"logprobs":2)"));
  EXPECT_TRUE(echo.echo && echo.echo_only);
  EXPECT_EQ(echo.params.prompt_logprobs, 2);
}

TEST(JsonBody, SaysWhereAndQuotesNothing) {
  const auto outcome = ParseBody("{\"prompt\": \"\xC4\xE3\xBA\xC3\"}");  // GBK
  ASSERT_TRUE(std::holds_alternative<ApiError>(outcome));
  const ApiError& error = std::get<ApiError>(outcome);
  EXPECT_EQ(error.status, 400);
  EXPECT_NE(error.message.find("byte"), std::string::npos);
  for (const char c : error.message) EXPECT_GE(c, 0x20) << error.message;
  EXPECT_TRUE(std::holds_alternative<ApiError>(ParseBody("{\"prompt\": ")));
  EXPECT_TRUE(std::holds_alternative<ApiError>(ParseBody("")));
  EXPECT_TRUE(std::holds_alternative<ApiError>(ParseBody(std::string(1000, '['))));
}

}  // namespace
}  // namespace peng::server
