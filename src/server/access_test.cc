// SPDX-License-Identifier: Apache-2.0
// Who may do what, what is told about requests, and what is kept from logs: over a fake engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "server/routes.h"
#include "server/test_service.h"

namespace peng::server {
namespace {

using api::Saying;

HttpRequest WithKey(HttpRequest request, const std::string& key) {
  request.headers.emplace_back("Authorization", "Bearer " + key);
  return request;
}

HttpRequest GetRequest(const std::string& path) { return {"GET", path, "", {}, "", "1.2.3.4:5678"}; }

std::string HeaderOf(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

ServiceOptions Base() {
  ServiceOptions options;
  options.model_names = {"m"};
  options.version = "1.2.3";
  options.max_model_len = 256;
  return options;
}

// D41: every route and method that the table has, and paths that only look like one, want a key unless listed as open.
TEST(Access, D41EveryRouteIsClosedUnlessItIsListedAsOpen) {
  const std::vector<std::string> open{"GET /", "GET /health", "GET /ready", "GET /ping", "POST /ping"};
  for (const bool with_admin : {false, true}) {
    ServiceOptions options = Base();
    options.keys = Keys({"right"});
    if (with_admin) options.admin_key = base::Sha256::Of("admin key");
    Fixture f({}, std::move(options));
    std::vector<std::string> paths{"/docs",     "//",         "/health/",  "/HEALTH",
                                   "/%68ealth", "/v1/health", "/metrics/", "/x?/health"};
    for (const Route& route : AllRoutes()) {
      const std::string path(route.path.substr(0, route.path.find('*')));
      for (const std::string& variant : {path, "/" + path, path + "/", path + "x"}) paths.push_back(variant);
    }
    for (const std::string& path : paths) {
      for (const char* method : {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "get", "FOO"}) {
        const std::string as_get = std::string(method) == "HEAD" ? "GET" : method;
        const bool is_open = std::find(open.begin(), open.end(), as_get + " " + path) != open.end();
        for (const char* authorization : {"", "Bearer ", "Bearer wrong", "right", "Basic right"}) {
          HttpRequest request{method, path, "", {{"Content-Type", "application/json"}}, "{}", ""};
          if (*authorization != '\0') request.headers.emplace_back("Authorization", authorization);
          const HttpResponse response = f.Begin(request)->Wait();
          EXPECT_EQ(response.status == 401, !is_open) << method << " " << path << " " << authorization;
          EXPECT_EQ(HeaderOf(response, "WWW-Authenticate"), response.status == 401 ? "Bearer" : "");
        }
        EXPECT_NE(f.Begin(WithKey({method, path, "", {}, "", ""}, "right"))->Wait().status, 401);
      }
      const int preflight = f.Begin({"OPTIONS", path, "", {{"Origin", "http://a"}}, "", ""})->Wait().status;
      EXPECT_TRUE(preflight == 204 || preflight == 404) << path;
    }
  }
}

TEST(Access, KeysMayComeAsAnthropicsClientsSendThem) {
  Fixture f({}, {"right"});
  HttpRequest request = GetRequest("/v1/models");
  request.headers = {{"x-api-key", "right"}};
  EXPECT_EQ(f.Begin(request)->Wait().status, 200);
  request.headers = {{"x-api-key", "right"}, {"Authorization", "Bearer wrong"}};
  EXPECT_EQ(f.Begin(request)->Wait().status, 401);
}

TEST(Access, AdministrativeEndpointsWantTheAdminKey) {
  ServiceOptions options = Base();
  options.keys = Keys({"user"});
  options.admin_key = base::Sha256::Of("root key");
  options.settings = Json::Object{{"port", 8000}};
  Fixture f({}, std::move(options));
  const auto post = [&](const std::string& path, const std::string& body, const std::string& key) {
    return f.Begin(WithKey(Fixture::Post(path, body), key))->Wait();
  };
  for (const Route& route : AllRoutes()) {
    if (route.access != Access::kAdmin) continue;
    const HttpResponse refused =
        f.Begin(WithKey({std::string(route.method), std::string(route.path), "", {}, "", ""}, "user"))->Wait();
    EXPECT_EQ(refused.status, 403) << route.path;
    EXPECT_EQ(At(Parse(refused.body), "error.type"), Json("PermissionDeniedError"));
  }
  EXPECT_EQ(post("/reset_prefix_cache", "", "root key").status, 200);
  EXPECT_EQ(f.test.engine->resets(), 1);
  EXPECT_EQ(post("/log_level", R"({"level":"error"})", "root key").body, R"({"level":"error"})");
  EXPECT_EQ(base::CurrentLogLevel(), base::LogLevel::kError);
  EXPECT_EQ(post("/log_level", R"({"level":"loud"})", "root key").status, 400);
  EXPECT_EQ(post("/log_level", R"({"level":"info"})", "root key").status, 200);
  EXPECT_EQ(f.Begin(WithKey(GetRequest("/log_level"), "root key"))->Wait().body, R"({"level":"info"})");
  const HttpResponse info = f.Begin(WithKey(GetRequest("/server_info"), "root key"))->Wait();
  EXPECT_EQ(At(Parse(info.body), "settings.port"), Json(8000));
  EXPECT_EQ(f.Begin(WithKey(GetRequest("/v1/models"), "root key"))->Wait().status, 200);
}

TEST(Access, WithoutAnAdminKeyThereIsNothingToAdminister) {
  Fixture open;
  EXPECT_EQ(open.Get("/server_info").status, 404);
  ServiceOptions options = Base();
  options.admin_key = base::Sha256::Of("root key");
  Fixture f({}, std::move(options));
  EXPECT_EQ(f.Get("/v1/models").status, 200);
  EXPECT_EQ(f.Get("/server_info").status, 401);
  EXPECT_EQ(f.Begin(WithKey(GetRequest("/server_info"), "root key"))->Wait().status, 200);
}

TEST(Access, TheMetricsPortServesMetricsAndProbesOnly) {
  Fixture f({}, {"key"});
  const auto status = [&](const char* method, const char* path) {
    const auto reply = std::make_shared<RecordedReply>();
    f.service.HandleMetricsPort({method, path, "", {}, "", ""}, reply);
    return reply->Wait().status;
  };
  EXPECT_EQ(f.Get("/metrics").status, 401);
  for (const char* path : {"/metrics", "/health", "/ping"}) EXPECT_EQ(status("GET", path), 200);
  for (const char* path : {"/", "/v1/models", "/version", "/metrics/"}) EXPECT_EQ(status("GET", path), 404) << path;
  EXPECT_EQ(status("POST", "/v1/completions"), 404);
}

TEST(Access, TooManyRequestsAre429WithRetryAfter) {
  ServiceOptions options = Base();
  options.keys = Keys({"a", "b"}, {.requests_per_minute = 2});
  Fixture f({.next = Saying("Hi")}, std::move(options));
  const auto ask = [&](const char* key) {
    return f.Begin(WithKey(Fixture::Post(kText, R"({"prompt":"x"})"), key))->Wait();
  };
  const HttpResponse first = ask("a");
  EXPECT_EQ(HeaderOf(first, "X-RateLimit-Limit-Requests"), "2");
  EXPECT_EQ(HeaderOf(first, "X-RateLimit-Remaining-Requests"), "1");
  EXPECT_EQ(ask("a").status, 200);
  const HttpResponse refused = ask("a");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(HeaderOf(refused, "Retry-After"), "30");
  EXPECT_EQ(At(Parse(refused.body), "error.type"), Json("RateLimitError"));
  EXPECT_EQ(At(Parse(refused.body), "error.code"), Json(429));
  EXPECT_EQ(f.Begin(WithKey(GetRequest("/v1/models"), "a"))->Wait().status, 200) << "only work is limited";
  EXPECT_EQ(ask("b").status, 200);
}

TEST(Access, TokensOfPromptAndReplyCount) {
  ServiceOptions options = Base();
  options.limits.tokens_per_minute = 10;
  Fixture f({}, std::move(options));
  EXPECT_EQ(f.Ask(kText, R"({"prompt":[5,6,7],"max_tokens":8})").status, 200);
  EXPECT_EQ(f.Ask(kText, R"({"prompt":[5,6,7],"max_tokens":8})").status, 429);
}

// A place is given back when the reply ends, is refused, or its client leaves.
TEST(Access, ConcurrencyIsGivenBack) {
  ServiceOptions options = Base();
  options.limits.max_concurrency = 1;
  Fixture f({.next = [](const auto&, int32_t) { return 20; }, .step = std::chrono::milliseconds(1)},
            std::move(options));
  const std::string work = R"({"prompt":"x","max_tokens":200,"ignore_eos":true,"stream":true})";
  const auto running = f.Begin(Fixture::Post(kText, work));
  running->WaitForBytes();
  EXPECT_EQ(f.Ask(kText, work).status, 429);
  running->Disconnect();
  EXPECT_EQ(f.Ask(kText, R"({"prompt":"x","temperature":-1})").status, 400);
  EXPECT_EQ(f.Ask(kText, R"({"prompt":"x","max_tokens":2})").status, 200);
  EXPECT_EQ(f.Ask(kText, R"({"prompt":"x","max_tokens":2,"stream":true})").status, 200);
  EXPECT_EQ(f.Ask(kText, R"({"prompt":"x","max_tokens":2})").status, 200);
}

TEST(Access, MethodsThatClientsMakeUpAreNoLabels) {
  Fixture f;
  for (int i = 0; i < 3; ++i) f.Begin({"MADE-UP-" + std::to_string(i), "/v1/models", "", {}, "", ""})->Wait();
  const std::string text = f.Get("/metrics").body;
  EXPECT_EQ(text.find("MADE-UP"), std::string::npos);
  EXPECT_NE(text.find(R"(http_requests_total{handler="none",method="other",status="4xx"} 3)"), std::string::npos);
}

TEST(Warnings, NameUnknownFieldsInTheReplyAndTheFirstChunk) {
  Fixture f({.next = Saying("Hi there")});
  const Json whole = f.AskJson(kChat, R"({"messages":[{"role":"user","content":"x","opts":1}],"foo":1,"user":"u"})");
  ASSERT_EQ(At(whole, "warnings").as_array().size(), 2U);
  EXPECT_EQ(At(whole, "warnings.0.param"), Json("foo"));
  EXPECT_EQ(At(whole, "warnings.1.param"), Json("messages[0].opts"));
  EXPECT_EQ(At(whole, "warnings.1.message"), Json("Unknown field 'messages[0].opts' is ignored."));
  EXPECT_EQ(f.AskJson(kChat, ChatBody(R"(,"user":"u","store":true,"metadata":{"a":"b"})")).Find("warnings"), nullptr);
  for (const char* path : {kChat, kText}) {
    const std::string body =
        std::string(path) == kChat ? ChatBody(R"(,"foo":1,"stream":true)") : R"({"prompt":"x","foo":1,"stream":true})";
    const auto events = f.Events(path, body);
    EXPECT_EQ(At(Parse(events[0]), "warnings.0.param"), Json("foo"));
    for (size_t i = 1; i + 1 < events.size(); ++i) EXPECT_EQ(Parse(events[i]).Find("warnings"), nullptr);
  }
  EXPECT_EQ(At(f.AskJson("/tokenize", R"({"prompt":"x","foo":1})"), "warnings.0.param"), Json("foo"));
  EXPECT_EQ(At(f.AskJson("/detokenize", R"({"tokens":[5],"foo":1})"), "warnings.0.param"), Json("foo"));
}

TEST(Warnings, StrictParamsRefuseThem) {
  ServiceOptions options = Base();
  options.strict_params = true;
  Fixture f({}, std::move(options));
  for (const auto& [path, body, param] : std::vector<std::array<std::string, 3>>{
           {kText, R"({"prompt":"x","foo":1})", "foo"},
           {kText, R"({"prompt":"x","foo":1,"stream":true})", "foo"},
           {kChat, R"({"messages":[{"role":"user","content":"x"},{"role":"user","content":"x","opts":1}]})",
            "messages[1].opts"},
           {"/tokenize", R"({"prompt":"x","foo":1})", "foo"},
           {"/detokenize", R"({"tokens":[5],"foo":1})", "foo"}}) {
    const HttpResponse response = f.Ask(path, body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(At(Parse(response.body), "error.param"), Json(param));
  }
  EXPECT_EQ(f.Ask(kChat, ChatBody(R"(,"user":"u","store":true,"service_tier":"auto")")).status, 200);
}

TEST(RequestIds, AreTakenEchoedAndMadeSafe) {
  Fixture f({.next = Saying("Hi")});
  const auto ask = [&](const char* id, const std::string& body) {
    HttpRequest request = Fixture::Post(kText, body);
    if (*id != '\0') request.headers.emplace_back("X-Request-Id", id);
    return f.Begin(request)->Wait();
  };
  const HttpResponse named = ask("abc-1", R"({"prompt":"x"})");
  EXPECT_EQ(HeaderOf(named, "X-Request-Id"), "abc-1");
  EXPECT_EQ(At(Parse(named.body), "id"), Json("cmpl-abc-1"));
  EXPECT_EQ(HeaderOf(ask("abc-1", R"({"prompt":"x","request_id":"mine"})"), "X-Request-Id"), "mine");
  EXPECT_EQ(HeaderOf(ask("a b\xff", R"({"prompt":"x"})"), "X-Request-Id"), "a_b_");
  EXPECT_EQ(HeaderOf(ask("", R"({"prompt":"x"})"), "X-Request-Id").size(), 32U);
  EXPECT_EQ(HeaderOf(ask("bad", R"({"prompt":5})"), "X-Request-Id"), "bad");
  EXPECT_EQ(HeaderOf(f.Get("/nothing"), "X-Request-Id").size(), 32U);
}

TEST(Usage, TellsCachedTokensAndComesUnaskedIfSo) {
  Fixture plain({.next = Saying("Hi")});
  EXPECT_TRUE(At(plain.AskJson(kText, R"({"prompt":"x"})"), "usage.prompt_tokens_details").is_null());
  ServiceOptions options = Base();
  options.prompt_tokens_details = options.force_include_usage = true;
  Fixture f({.next = Saying("Hi")}, std::move(options));
  EXPECT_EQ(At(f.AskJson(kText, R"({"prompt":"x"})"), "usage.prompt_tokens_details.cached_tokens"), Json(0));
  const auto events = f.Events(kChat, ChatBody(R"(,"stream":true)"));
  EXPECT_TRUE(At(Parse(events[events.size() - 2]), "choices").as_array().empty());
  At(Parse(events[0]), "usage.prompt_tokens");
}

TEST(PrefixCache, IsSaltedByTheNameOfTheKey) {
  ServiceOptions options = Base();
  options.keys = Keys({"a", "b"});
  options.isolate_prefix_cache = true;
  Fixture f({.next = Saying("Hi")}, std::move(options));
  const auto salt = [&](const char* key, const char* more) {
    f.Begin(WithKey(Fixture::Post(kText, std::string(R"({"prompt":"x")") + more + "}"), key))->Wait();
    return f.test.engine->specs().back().cache_salt;
  };
  EXPECT_EQ(salt("a", ""), salt("a", ""));
  EXPECT_NE(salt("a", ""), salt("b", ""));
  EXPECT_NE(salt("a", R"(,"cache_salt":"s")"), salt("a", ""));
  EXPECT_NE(salt("a", R"(,"cache_salt":"s")"), salt("b", R"(,"cache_salt":"s")"));
  Fixture open({.next = Saying("Hi")});
  open.Ask(kText, R"({"prompt":"x"})");
  EXPECT_EQ(open.test.engine->specs().back().cache_salt, "");
}

class TellTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "peng-tell-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::vector<Json> Records() const {
    std::ifstream in(folder_ + "/audit");
    std::vector<Json> records;
    for (std::string line; std::getline(in, line);) records.push_back(Parse(line));
    return records;
  }
  std::string folder_;
};

TEST_F(TellTest, TheAuditLogHasOneRecordForEachRequest) {
  ServiceOptions options = Base();
  options.keys = Keys({"a"});
  options.sinks.audit = std::make_unique<AuditLog>(folder_ + "/audit");
  Fixture f({.next = Saying("Hi")}, std::move(options));
  const auto ask = [&](const std::string& body) {
    HttpRequest request = WithKey(Fixture::Post(kText, body), "a");
    request.remote = "1.2.3.4:5678";
    f.Begin(request)->Wait();
  };
  ask(R"({"prompt":[5,6,7],"max_tokens":2,"ignore_eos":true,"n":2,"request_id":"r1"})");
  ask(R"({"prompt":[5,6,7],"max_tokens":2,"ignore_eos":true,"stream":true})");
  ask(R"({"prompt":"x","temperature":-1})");
  HttpRequest wrong = WithKey(GetRequest("/v1/models"), "wrong");
  f.Begin(wrong)->Wait();
  f.Begin(WithKey(GetRequest("/metrics"), "a"))->Wait();
  f.Get("/health");
  const std::vector<Json> records = Records();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(At(records[0], "request_id"), Json("r1"));
  EXPECT_EQ(At(records[0], "key"), Json("key-1"));
  EXPECT_EQ(At(records[0], "address"), Json("1.2.3.4"));
  EXPECT_EQ(At(records[0], "path"), Json(kText));
  EXPECT_EQ(At(records[0], "status"), Json(200));
  EXPECT_EQ(At(records[0], "model"), Json("m"));
  EXPECT_EQ(At(records[0], "prompt_tokens"), Json(3));
  EXPECT_EQ(At(records[0], "completion_tokens"), Json(4));
  EXPECT_EQ(At(records[0], "finish_reason"), Json("length"));
  EXPECT_EQ(At(records[1], "stream"), Json(true));
  EXPECT_EQ(At(records[1], "completion_tokens"), Json(2));
  EXPECT_EQ(At(records[2], "status"), Json(400));
  EXPECT_EQ(At(records[3], "status"), Json(401));
  EXPECT_TRUE(At(records[3], "key").is_null());
}

TEST_F(TellTest, AClientThatLeavesIsRecorded) {
  ServiceOptions options = Base();
  options.sinks.audit = std::make_unique<AuditLog>(folder_ + "/audit");
  Fixture f({.next = [](const auto&, int32_t) { return 20; }, .step = std::chrono::milliseconds(1)},
            std::move(options));
  for (const char* stream : {"true", "false"}) {
    const auto reply =
        f.Begin(Fixture::Post(kText, R"({"prompt":"x","max_tokens":200,"stream":)" + std::string(stream) + "}"));
    reply->Disconnect();
  }
  const std::vector<Json> records = Records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(At(records[0], "status"), Json(200));
  EXPECT_EQ(At(records[1], "status"), Json(499));
  for (const Json& record : records) EXPECT_EQ(At(record, "finish_reason"), Json("abort"));
}

std::string LogOf(const std::function<void()>& action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

TEST_F(TellTest, RequestsAndSlowOnesAreOneLine) {
  ServiceOptions options = Base();
  options.sinks.log_requests = true;
  Fixture f({.next = Saying("Hi")}, std::move(options));
  const std::string line = LogOf([&] { f.Ask(kText, R"({"prompt":[5,6],"request_id":"r2"})"); });
  EXPECT_NE(line.find(" INFO request request_id=r2 key=null"), std::string::npos) << line;
  EXPECT_NE(line.find(" prompt_tokens=2 "), std::string::npos);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);

  ServiceOptions slow = Base();
  slow.sinks.slow_request_ms = 20;
  Fixture g({.next = Saying("Hi"), .step = std::chrono::milliseconds(30)}, std::move(slow));
  const std::string warning = LogOf([&] { g.Ask(kText, R"({"prompt":"x"})"); });
  EXPECT_NE(warning.find(" WARNING slow request "), std::string::npos) << warning;
  EXPECT_NE(warning.find(" first_token_ms="), std::string::npos);
  EXPECT_EQ(LogOf([&] { g.Get("/version"); }), "");
}

// A canary in every place that a client fills must not come out anywhere but in its own reply.
TEST_F(TellTest, ContentIsNeverLoggedUnlessAsked) {
  for (const bool log_prompts : {false, true}) {
    std::filesystem::remove(folder_ + "/audit");
    ServiceOptions options = Base();
    options.sinks.audit = std::make_unique<AuditLog>(folder_ + "/audit");
    options.sinks.log_requests = true;
    options.log_prompts = log_prompts;
    Fixture f({.next = Saying("the reply CANARY ends")}, std::move(options));
    base::SetLogLevel(base::LogLevel::kDebug);
    const std::string log = LogOf([&] {
      for (const char* stream : {"", R"(,"stream":true)"}) {
        f.Ask(kText,
              std::string(R"({"prompt":"CANARY","stop":["CANARIES"],"user":"CANARY","max_tokens":50)") + stream + "}");
        f.Ask(kChat, std::string(R"({"messages":[{"role":"user","content":"CANARY","name":"CANARY"}])") + stream + "}");
      }
      f.Ask(kText, R"({"prompt":{"CANARY":1}})");
      f.Ask(kText, R"({"prompt":"CANARY","temperature":"CANARY"})");
      f.Ask(kText, R"({"prompt":"x","a CANARY text":1})");
      f.Ask(kText, R"({"model":"CANARY","prompt":"x"})");
      f.Ask(kChat, R"({"messages":[{"role":"CANARY","content":"CANARY"}]})");
      f.Ask(kChat, R"({"messages":"CANARY)");
      f.Get("/v1/models/CANARY");
      f.Get("/CANARY");
      f.Begin({"CANARY", "/CANARY", "CANARY", {}, "CANARY", ""})->Wait();
    });
    base::SetLogLevel(base::LogLevel::kInfo);
    EXPECT_EQ(log.find("CANARY") != std::string::npos, log_prompts) << log;
    EXPECT_EQ(log.find("CANAR") != std::string::npos, log_prompts);
    if (log_prompts) {
      EXPECT_NE(log.find("INFO prompt "), std::string::npos);
      EXPECT_NE(log.find(R"(text="the reply CANARY ends")"), std::string::npos) << log;
    }
    EXPECT_EQ(f.Get("/metrics").body.find("CANARY"), std::string::npos);
    for (const Json& record : Records()) EXPECT_EQ(record.Dump().find("CANARY"), std::string::npos) << record.Dump();
    EXPECT_GT(Records().size(), 5U);
  }
}

}  // namespace
}  // namespace peng::server
