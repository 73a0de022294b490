// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: a Service over a fake engine, and what a client gets for what it sends, without a socket.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/test_llm.h"
#include "base/json.h"
#include "server/service.h"

namespace peng::server {

using api::FakeEngine;
using base::Json;

class RecordedReply final : public HttpReply {
 public:
  void Send(HttpResponse response) override {
    std::lock_guard lock(mutex_);
    response_ = std::move(response);
    done_ = true;
    changed_.notify_all();
  }
  void Start(int status, std::string_view content_type, HttpHeaders headers) override {
    std::lock_guard lock(mutex_);
    response_ = {.status = status, .content_type = std::string(content_type), .headers = std::move(headers)};
    streamed_ = true;
  }
  void CarryStreams(size_t) override {}
  bool Write(std::string_view bytes) override {
    std::lock_guard lock(mutex_);
    response_.body += bytes;
    changed_.notify_all();
    return true;
  }
  void Finish() override {
    std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  void OnDisconnect(std::function<void()> gone) override {
    std::lock_guard lock(mutex_);
    gone_ = std::move(gone);
  }

  HttpResponse Wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return done_; })) throw std::runtime_error("no reply");
    return response_;
  }
  void WaitForBytes() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return !response_.body.empty(); });
  }
  void Disconnect() { gone_(); }
  bool streamed() const { return streamed_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse response_;
  bool done_ = false, streamed_ = false;
  std::function<void()> gone_;
};

inline Json Parse(const std::string& text) {
  auto parsed = base::ParseJson(text);
  if (auto* error = std::get_if<base::JsonError>(&parsed)) throw std::runtime_error(error->message + ": " + text);
  return std::get<Json>(parsed);
}

// The member at "a.b.0.c".
inline const Json& At(const Json& root, std::string_view path) {
  const Json* at = &root;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    at = at->is_array() ? &at->as_array().at(std::stoul(key)) : at->Find(key);
    if (at == nullptr) throw std::runtime_error("no member " + key + " in " + root.Dump());
  }
  return *at;
}

inline std::shared_ptr<KeyRing> Keys(std::vector<std::string> keys, KeyLimits limits = {}) {
  return keys.empty() ? nullptr : std::make_shared<KeyRing>(KeyRingOptions{std::move(keys), "", limits});
}

struct Fixture {
  explicit Fixture(FakeEngine::Options options = {}, std::vector<std::string> keys = {})
      : Fixture(std::move(options), {{"m", "alias"}, Keys(std::move(keys)), "1.2.3", 256}) {}
  Fixture(FakeEngine::Options options, ServiceOptions service_options)
      : test(std::move(options)), service(std::move(service_options)) {
    service.SetLlm(test.llm);
  }

  std::shared_ptr<RecordedReply> Begin(HttpRequest request) {
    auto reply = std::make_shared<RecordedReply>();
    if (auto refusal = service.Precheck(request)) {
      reply->Send(std::move(*refusal));
    } else {
      service.Handle(std::move(request), reply);
    }
    return reply;
  }
  static HttpRequest Post(const std::string& path, const std::string& body) {
    return {"POST", path, "", {{"Content-Type", "application/json"}}, body, ""};
  }
  HttpResponse Ask(const std::string& path, const std::string& body) { return Begin(Post(path, body))->Wait(); }
  HttpResponse Get(const std::string& path) { return Begin({"GET", path, "", {}, "", ""})->Wait(); }
  Json AskJson(const std::string& path, const std::string& body) {
    const HttpResponse response = Ask(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Parse(response.body);
  }
  // The data events of a stream; checks the framing.
  std::vector<std::string> Events(const std::string& path, const std::string& body) {
    const HttpResponse response = Ask(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<std::string> events;
    std::string_view rest = response.body;
    while (!rest.empty()) {
      EXPECT_TRUE(rest.starts_with("data: "));
      const size_t end = rest.find("\n\n");
      if (end == std::string_view::npos) throw std::runtime_error("unfinished event");
      events.emplace_back(rest.substr(6, end - 6));
      rest.remove_prefix(end + 2);
    }
    return events;
  }

  api::TestLlm test;
  Service service;
};

inline constexpr char kChat[] = "/v1/chat/completions";
inline constexpr char kText[] = "/v1/completions";
inline constexpr char kReply[] = "Hello, world! 你好，世界 — naïve café\nsecond line";

inline std::string ChatBody(const std::string& more = "") {
  return R"({"model":"m","messages":[{"role":"user","content":"Hi"}])" + more + "}";
}

}  // namespace peng::server
