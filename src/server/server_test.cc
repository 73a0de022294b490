// SPDX-License-Identifier: Apache-2.0
// The endpoints over a fake engine: what a client gets for what it sends, without a socket.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/routes.h"
#include "server/test_service.h"

namespace peng::server {
namespace {

using api::Saying;

TEST(Server, WholeChat) {
  Fixture f({.next = Saying(kReply)});
  const Json reply = f.AskJson(kChat, ChatBody());
  EXPECT_TRUE(At(reply, "id").as_string().starts_with("chatcmpl-"));
  EXPECT_EQ(At(reply, "object"), Json("chat.completion"));
  EXPECT_EQ(At(reply, "model"), Json("m"));
  EXPECT_EQ(At(reply, "choices.0.message.role"), Json("assistant"));
  EXPECT_EQ(At(reply, "choices.0.message.content"), Json(kReply));
  EXPECT_EQ(At(reply, "choices.0.finish_reason"), Json("stop"));
  EXPECT_TRUE(At(reply, "choices.0.stop_reason").is_null());
  EXPECT_TRUE(At(reply, "choices.0.logprobs").is_null());
  const int64_t prompt = At(reply, "usage.prompt_tokens").as_int();
  const int64_t generated = At(reply, "usage.completion_tokens").as_int();
  EXPECT_EQ(prompt, static_cast<int64_t>(f.test.engine->specs()[0].prompt.size()));
  EXPECT_EQ(generated, static_cast<int64_t>(api::TestTokenizer()->Encode(kReply, false).size()) + 1);
  EXPECT_EQ(At(reply, "usage.total_tokens").as_int(), prompt + generated);
}

TEST(Server, StreamedChatInOrder) {
  Fixture f({.next = Saying(kReply)});
  const auto events = f.Events(kChat, ChatBody(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  ASSERT_GE(events.size(), 5U);
  const Json first = Parse(events.front());
  EXPECT_EQ(At(first, "object"), Json("chat.completion.chunk"));
  EXPECT_EQ(At(first, "choices.0.delta"), Parse(R"({"role":"assistant","content":""})"));
  EXPECT_TRUE(At(first, "choices.0.finish_reason").is_null());
  EXPECT_EQ(first.Find("usage"), nullptr);
  std::string text;
  for (size_t i = 1; i + 2 < events.size(); ++i) {
    const Json chunk = Parse(events[i]);
    EXPECT_EQ(At(chunk, "id"), At(first, "id"));
    EXPECT_EQ(At(chunk, "choices.0.delta").Find("role"), nullptr);
    if (const Json* content = At(chunk, "choices.0.delta").Find("content")) text += content->as_string();
    const bool last = i + 3 == events.size();
    EXPECT_EQ(At(chunk, "choices.0.finish_reason"), last ? Json("stop") : Json());
  }
  EXPECT_EQ(text, kReply);
  const Json usage = Parse(events[events.size() - 2]);
  EXPECT_TRUE(At(usage, "choices").as_array().empty());
  EXPECT_GT(At(usage, "usage.completion_tokens").as_int(), 0);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Server, UsageChunkOnlyWhenAsked) {
  Fixture f({.next = Saying("Hi")});
  const auto events = f.Events(kChat, ChatBody(R"(,"stream":true)"));
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = Parse(events[i]);
    EXPECT_FALSE(At(chunk, "choices").as_array().empty());
    EXPECT_EQ(chunk.Find("usage"), nullptr);
  }
  const auto continuous = f.Events(
      kChat, ChatBody(R"(,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})"));
  EXPECT_EQ(At(Parse(continuous[0]), "usage.completion_tokens"), Json(0));
  EXPECT_GT(At(Parse(continuous[1]), "usage.completion_tokens").as_int(), 0);
}

TEST(Server, SeveralChoices) {
  Fixture f;
  const Json reply = f.AskJson(kChat, ChatBody(R"(,"n":3,"max_tokens":2,"seed":1,"ignore_eos":true)"));
  ASSERT_EQ(At(reply, "choices").as_array().size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(At(reply, "choices." + std::to_string(i) + ".index"), Json(i));
  EXPECT_EQ(At(reply, "usage.completion_tokens"), Json(6));
  const auto events = f.Events(kChat, ChatBody(R"(,"n":2,"max_tokens":2,"stream":true)"));
  int finished = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) finished += !At(Parse(events[i]), "choices.0.finish_reason").is_null();
  EXPECT_EQ(finished, 2);
}

TEST(Server, ChatLogprobsAndTokenIds) {
  Fixture f({.next = Saying("Hello")});
  const Json reply =
      f.AskJson(kChat, ChatBody(R"(,"logprobs":true,"top_logprobs":2,"return_token_ids":true,"max_tokens":1)"));
  EXPECT_EQ(At(reply, "choices.0.logprobs.content.0.logprob"), Json(-0.5));
  EXPECT_EQ(At(reply, "choices.0.logprobs.content.0.top_logprobs").as_array().size(), 2U);
  EXPECT_EQ(At(reply, "choices.0.logprobs.content.0.token"), At(reply, "choices.0.message.content"));
  EXPECT_TRUE(At(reply, "choices.0.logprobs.content.0.bytes").is_array());
  EXPECT_EQ(At(reply, "choices.0.token_ids").as_array().size(), 1U);
  EXPECT_EQ(At(reply, "prompt_token_ids").as_array().size(), f.test.engine->specs()[0].prompt.size());
  const auto events = f.Events(kChat, ChatBody(R"(,"stream":true,"logprobs":true,"return_token_ids":true)"));
  EXPECT_TRUE(At(Parse(events[0]), "prompt_token_ids").is_array());
  EXPECT_EQ(At(Parse(events[1]), "choices.0.token_ids").as_array().size(), 1U);
  EXPECT_TRUE(At(Parse(events[1]), "choices.0.logprobs.content.0.top_logprobs").as_array().empty());
}

TEST(Server, Completions) {
  Fixture f({.next = Saying(kReply)});
  const Json reply = f.AskJson(kText, R"({"prompt":"Once","max_tokens":99})");
  EXPECT_TRUE(At(reply, "id").as_string().starts_with("cmpl-"));
  EXPECT_EQ(At(reply, "object"), Json("text_completion"));
  EXPECT_EQ(At(reply, "choices.0.text"), Json(kReply));
  EXPECT_EQ(At(f.AskJson(kText, R"({"prompt":"Once"})"), "usage.completion_tokens"), Json(16));
  std::string text;
  const auto events = f.Events(kText, R"({"prompt":"Once","max_tokens":99,"stream":true})");
  for (size_t i = 0; i + 1 < events.size(); ++i) text += At(Parse(events[i]), "choices.0.text").as_string();
  EXPECT_EQ(text, kReply);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Server, CompletionsOfManyPrompts) {
  Fixture f;
  const Json reply = f.AskJson(kText, R"({"prompt":[[10,11,12],[20,21]],"max_tokens":2,"return_token_ids":true})");
  EXPECT_EQ(At(reply, "choices.0.token_ids"), Parse("[10,11]"));
  EXPECT_EQ(At(reply, "choices.1.token_ids"), Parse("[20,21]"));
  EXPECT_EQ(At(reply, "choices.1.index"), Json(1));
  EXPECT_EQ(At(reply, "choices.1.prompt_token_ids"), Parse("[20,21]"));
  EXPECT_EQ(At(reply, "usage.prompt_tokens"), Json(5));
}

TEST(Server, EchoWithLogprobs) {
  Fixture f;
  const Json reply = f.AskJson(kText, R"({"prompt":[10,11,12],"max_tokens":2,"echo":true,"logprobs":1})");
  const Json& logprobs = At(reply, "choices.0.logprobs");
  EXPECT_EQ(At(logprobs, "tokens").as_array().size(), 5U);
  EXPECT_TRUE(At(logprobs, "token_logprobs.0").is_null());
  EXPECT_TRUE(At(logprobs, "top_logprobs.0").is_null());
  EXPECT_EQ(At(logprobs, "token_logprobs.4"), Json(-0.5));
  const std::string prompt = api::TestTokenizer()->Decode(std::vector<int32_t>{10, 11, 12}, true);
  EXPECT_TRUE(At(reply, "choices.0.text").as_string().starts_with(prompt));

  const Json only = f.AskJson(kText, R"({"prompt":[10,11,12],"max_tokens":0,"echo":true,"logprobs":1})");
  EXPECT_EQ(At(only, "choices.0.text"), Json(prompt));
  EXPECT_EQ(At(only, "choices.0.logprobs.tokens").as_array().size(), 3U);
  EXPECT_EQ(At(only, "choices.0.finish_reason"), Json("length"));
}

TEST(Server, EchoIsStreamedOnce) {
  Fixture f;
  std::string text;
  const auto events = f.Events(kText, R"({"prompt":"Once upon","max_tokens":3,"echo":true,"stream":true})");
  for (size_t i = 0; i + 1 < events.size(); ++i) text += At(Parse(events[i]), "choices.0.text").as_string();
  EXPECT_TRUE(text.starts_with("Once upon"));
  EXPECT_EQ(text.find("Once upon", 1), std::string::npos);
}

// Streamed and whole replies are the same text for every cut of a stop string.
TEST(Server, StopStringsStreamedAndWhole) {
  Fixture f({.next = Saying(kReply)});
  for (const char* stop : {"H", "lo,", " world", "你", "好，世", " — ", "é\\n", "second line"}) {
    const std::string more = std::string(R"(,"max_tokens":99,"stop":")") + stop + '"';
    const Json whole = f.AskJson(kText, R"({"prompt":"x")" + more + "}");
    std::string text;
    const auto events = f.Events(kText, R"({"prompt":"x","stream":true)" + more + "}");
    for (size_t i = 0; i + 1 < events.size(); ++i) text += At(Parse(events[i]), "choices.0.text").as_string();
    EXPECT_EQ(Json(text), At(whole, "choices.0.text")) << stop;
    EXPECT_EQ(At(whole, "choices.0.stop_reason"), Parse('"' + std::string(stop) + '"'));
  }
}

TEST(Server, ErrorsAreKnownBeforeTheFirstByte) {
  Fixture f;
  const std::string long_prompt = R"({"prompt":")" + std::string(3000, 'x') + R"(","stream":true})";
  for (const auto& [path, body] :
       std::vector<std::pair<const char*, std::string>>{{kText, long_prompt},
                                                        {kText, R"({"prompt":"x","stream":true,"temperature":-1})"},
                                                        {kText, R"({"prompt":"","stream":true})"},
                                                        {kText, R"({"prompt":[""]})"},
                                                        {kText, R"({"prompt":[]})"},
                                                        {kChat, R"({"messages":[],"stream":true})"},
                                                        {kChat, "{"},
                                                        {kChat, ChatBody(R"(,"n":1000000)")}}) {
    const auto reply = f.Begin(Fixture::Post(path, body));
    const HttpResponse response = reply->Wait();
    EXPECT_FALSE(reply->streamed());
    EXPECT_EQ(response.status, 400) << response.body;
    const Json error = Parse(response.body);
    EXPECT_EQ(At(error, "error.code"), Json(400));
    EXPECT_TRUE(At(error, "error.message").is_string());
    EXPECT_TRUE(At(error, "error.type").is_string());
    At(error, "error.param");
  }
  EXPECT_TRUE(f.test.engine->specs().empty());
}

TEST(Server, LateErrorsAreOneEventThenDone) {
  Fixture f({.fail_at = 2});
  const auto events = f.Events(kChat, ChatBody(R"(,"stream":true)"));
  EXPECT_EQ(At(Parse(events[events.size() - 2]), "error.code"), Json(500));
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(f.Ask(kChat, ChatBody()).status, 500);
  EXPECT_NE(f.Get("/metrics").body.find(R"(finished_reason="error",model_name="m"} 2)"), std::string::npos);
}

TEST(Server, UnknownModelIs404) {
  Fixture f;
  const HttpResponse response = f.Ask(kText, R"({"model":"gpt-9","prompt":"x"})");
  EXPECT_EQ(response.status, 404);
  const Json error = Parse(response.body);
  EXPECT_EQ(At(error, "error.type"), Json("NotFoundError"));
  EXPECT_EQ(At(error, "error.param"), Json("model"));
  EXPECT_NE(At(error, "error.message").as_string().find("`alias`"), std::string::npos);
  EXPECT_EQ(f.Ask(kText, R"({"model":"alias","prompt":"x"})").status, 200);
}

TEST(Server, DisconnectAbortsEveryChoice) {
  for (const char* stream : {"true", "false"}) {
    Fixture f({.next = [](const auto&, int32_t) { return 20; }, .step = std::chrono::milliseconds(1)});
    const auto reply =
        f.Begin(Fixture::Post(kText, R"({"prompt":"x","n":3,"max_tokens":200,"stream":)" + std::string(stream) + "}"));
    reply->Disconnect();
    EXPECT_EQ(f.test.llm->RunningGenerations(), 0);
    EXPECT_EQ(f.test.engine->Stats().scheduler.running, 0);
    EXPECT_NE(f.Get("/metrics").body.find(R"(finished_reason="abort",model_name="m"} 3)"), std::string::npos);
  }
}

TEST(Server, AClientThatLeavesWhileItsChoicesAreStartedStopsThat) {
  for (const char* stream : {"true", "false"}) {
    const auto reply = std::make_shared<RecordedReply>();
    Fixture f({.next = [](const auto&, int32_t) { return 20; },
               .step = std::chrono::milliseconds(1),
               .submitted =
                   [&](const sched::RequestSpec& spec) {
                     if (spec.sampling.choice == 2 && spec.prompt.size() == 2) reply->Disconnect();
                   }});
    f.service.Handle(Fixture::Post(kText, R"({"prompt":[[9],[9,10],[11]],"n":100,"max_tokens":200,"stream":)" +
                                              std::string(stream) + "}"),
                     reply);
    EXPECT_EQ(f.test.engine->specs().size(), 103U);
    EXPECT_EQ(f.test.llm->RunningGenerations(), 0);
    EXPECT_FALSE(reply->streamed());
  }
}

TEST(Server, TheIdOfAReplyIsThatOfItsHeader) {
  Fixture f;
  for (const auto& [given, id] : {std::pair{"mine", "mine"}, std::pair{"a\\r\\nX: y", "a__X:_y"},
                                  std::pair{"\xC3\xA9", "__"}, std::pair{"a\\u0000b", "a_b"}}) {
    const HttpResponse response =
        f.Ask(kText, R"({"prompt":"x","max_tokens":1,"request_id":")" + std::string(given) + "\"}");
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(At(Parse(response.body), "id"), Json("cmpl-" + std::string(id)));
    const std::pair<std::string, std::string> header("X-Request-Id", id);
    EXPECT_EQ(std::count(response.headers.begin(), response.headers.end(), header), 1) << given;
  }
}

TEST(Server, KeysGuardEverythingThatIsNotListedAsOpen) {
  Fixture f({}, {"first key", "second"});
  const auto status = [&](std::string method, std::string path, std::string authorization) {
    HttpRequest request{std::move(method), std::move(path), "", {{"Content-Type", "application/json"}}, "{}", ""};
    if (!authorization.empty()) request.headers.emplace_back("Authorization", std::move(authorization));
    return f.Begin(std::move(request))->Wait().status;
  };
  for (const Route& route : AllRoutes()) {
    const bool open = route.access == Access::kOpen;
    EXPECT_EQ(status(std::string(route.method), std::string(route.path), "") == 401, !open) << route.path;
    const bool admin = route.access == Access::kAdmin;
    if (admin) {
      EXPECT_EQ(status(std::string(route.method), std::string(route.path), "Bearer second"), 404);
    }
    EXPECT_NE(status(std::string(route.method), std::string(route.path), "Bearer second"), 401);
  }
  for (const char* path : {"/v1/models/", "//v1/models", "/V1/models", "/%761/models", "/nothing", "/docs"}) {
    for (const char* method : {"GET", "POST", "PUT", "DELETE", "TRACE"})
      EXPECT_EQ(status(method, path, ""), 401) << path;
  }
  for (const char* wrong : {"Bearer ", "Bearer first", "second", "Basic second", "Bearer second "}) {
    EXPECT_EQ(status("GET", "/v1/models", wrong), 401) << wrong;
  }
  EXPECT_EQ(status("GET", "/v1/models", "bearer first key"), 200);
  const HttpResponse refused = f.Get("/v1/models");
  EXPECT_EQ(refused.body, R"({"error":"Unauthorized"})");
  EXPECT_EQ(refused.headers[0], (std::pair<std::string, std::string>("WWW-Authenticate", "Bearer")));
}

TEST(Server, MethodsAndPaths) {
  Fixture f;
  const auto ask = [&](const char* method, const char* path, HttpHeaders headers = {}) {
    return f.Begin({method, path, "", std::move(headers), "", ""})->Wait();
  };
  const HttpResponse wrong = ask("GET", kChat);
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers[0], (std::pair<std::string, std::string>("Allow", "POST")));
  EXPECT_EQ(ask("GET", "/nothing").status, 404);
  EXPECT_EQ(At(Parse(ask("GET", "/nothing").body), "error.code"), Json(404));
  EXPECT_EQ(ask("HEAD", "/health").status, 200);
  EXPECT_EQ(ask("POST", kChat).status, 400);  // no content type
  EXPECT_EQ(ask("POST", kChat, {{"Content-Type", "text/plain"}}).status, 400);
  EXPECT_EQ(ask("OPTIONS", kChat, {{"Origin", "http://a"}, {"Access-Control-Request-Method", "POST"}}).status, 204);
}

TEST(Server, ModelsVersionTokenize) {
  Fixture f;
  const Json models = Parse(f.Get("/v1/models").body);
  EXPECT_EQ(At(models, "data").as_array().size(), 2U);
  EXPECT_EQ(At(models, "data.0.id"), Json("m"));
  EXPECT_EQ(At(models, "data.0.max_model_len"), Json(256));
  EXPECT_EQ(At(Parse(f.Get("/v1/models/alias").body), "id"), Json("alias"));
  EXPECT_EQ(f.Get("/v1/models/none").status, 404);
  EXPECT_EQ(f.Get("/version").body, R"({"version":"1.2.3"})");

  const Json tokens = f.AskJson("/tokenize", R"({"prompt":"Hello","return_token_strs":true})");
  EXPECT_EQ(At(tokens, "tokens.0"), Json(0));  // BOS
  EXPECT_EQ(At(tokens, "count"), Json(static_cast<int64_t>(At(tokens, "tokens").as_array().size())));
  EXPECT_EQ(At(tokens, "token_strs").as_array().size(), At(tokens, "tokens").as_array().size());
  const Json bare = f.AskJson("/tokenize", R"({"prompt":"Hello","add_special_tokens":false})");
  const Json text = f.AskJson("/detokenize", R"({"tokens":)" + At(bare, "tokens").Dump() + "}");
  EXPECT_EQ(At(text, "prompt"), Json("Hello"));
  EXPECT_EQ(f.Ask("/detokenize", R"({"tokens":[5000]})").status, 400);
  const Json chat = f.AskJson("/tokenize", ChatBody());
  EXPECT_EQ(At(chat, "tokens.0"), Json(0));
}

TEST(Server, HealthFollowsTheModel) {
  Fixture f;
  EXPECT_EQ(f.Get("/health").status, 200);
  f.test.engine->set_health(engine::EngineHealth::kDead);
  EXPECT_EQ(f.Get("/health").status, 503);
  EXPECT_EQ(f.Ask(kChat, ChatBody()).status, 500);
  EXPECT_EQ(f.Get("/ping").status, 200);

  Service loading({{"m"}, {}, "1", 0});
  const auto reply = std::make_shared<RecordedReply>();
  loading.Handle({"GET", "/health", "", {}, "", ""}, reply);
  EXPECT_EQ(reply->Wait().status, 503);
}

TEST(Server, DrainingRefusesNewWorkAndFinishesOld) {
  Fixture f({.next = Saying(kReply), .step = std::chrono::milliseconds(1)});
  const auto running = f.Begin(Fixture::Post(kText, R"({"prompt":"x","max_tokens":99})"));
  f.service.BeginDrain();
  EXPECT_EQ(f.Ask(kChat, ChatBody()).status, 503);
  EXPECT_EQ(f.Get("/health").status, 503);
  EXPECT_EQ(f.Get("/ping").status, 200);
  EXPECT_EQ(running->Wait().status, 200);
}

TEST(Server, AFullQueueIs503WithRetryAfter) {
  using engine::SubmitRefusal;
  Fixture f({.refuse = SubmitRefusal{SubmitRefusal::Kind::kBusy, "the queue is full (3 requests)", 7}});
  for (const char* stream : {"false", "true"}) {
    const HttpResponse refused = f.Ask(kChat, ChatBody(R"(,"stream":)" + std::string(stream)));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.headers[0], (std::pair<std::string, std::string>("Retry-After", "7")));
    EXPECT_EQ(At(Parse(refused.body), "error.type"), Json("ServiceUnavailableError"));
    EXPECT_EQ(At(Parse(refused.body), "error.message"), Json("the queue is full (3 requests)"));
  }
  EXPECT_NE(f.Get("/metrics").body.find("vllm:admission_rejections_total"), std::string::npos);
}

TEST(Server, Metrics) {
  Fixture f({.next = Saying("Hello there")});
  f.AskJson(kText, R"({"prompt":[10,11,12],"max_tokens":50})");
  const std::string text = f.Get("/metrics").body;
  for (const char* line :
       {R"(vllm:num_requests_running{engine="0",model_name="m"} 0)",
        R"(vllm:prompt_tokens_total{engine="0",model_name="m"} 3)",
        R"(vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 1)",
        R"(vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="0.001"})",
        R"(vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 1)",
        R"(vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="m",le="7680"})",
        R"(http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 1)", "vllm:kv_cache_usage_perc",
        "vllm:num_requests_waiting", "vllm:generation_tokens_total", "vllm:inter_token_latency_seconds_sum",
        "vllm:prefix_cache_queries_total", "vllm:num_preemptions_total"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(Server, PageAllowsNoFrames) {
  Fixture f;
  const HttpResponse page = f.Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("<html"), std::string::npos);
}

}  // namespace
}  // namespace peng::server
