// SPDX-License-Identifier: Apache-2.0
#include "server/request_scope.h"

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <utility>

#include "base/log.h"

namespace peng::server {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

int64_t Milliseconds(double seconds) { return std::llround(seconds * 1000); }

Json Name(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::string RequestIdFrom(std::string_view given) {
  constexpr size_t kMaxBytes = 128;
  std::string id;
  for (const char c : given.substr(0, kMaxBytes)) id += c > 0x20 && c < 0x7F ? c : '_';
  if (!id.empty()) return id;
  static thread_local std::mt19937_64 random{std::random_device{}()};
  const uint64_t high = random(), low = random();
  return fmt::format("{:016x}{:016x}", high, low);
}

RequestScope::RequestScope(std::shared_ptr<const RequestSinks> sinks, Client client, std::string_view id,
                           std::string remote, std::string_view method, std::string_view route, bool quiet)
    : sinks_(std::move(sinks)),
      client_(std::move(client)),
      remote_(std::move(remote)),
      method_(method),
      route_(route),
      quiet_(quiet),
      id_(RequestIdFrom(id)) {}

RequestScope::~RequestScope() { End(); }

std::string RequestScope::id() const {
  const std::lock_guard lock(mutex_);
  return id_;
}

void RequestScope::set_id(std::string_view id) {
  const std::lock_guard lock(mutex_);
  id_ = RequestIdFrom(id);
}

void RequestScope::Admit(std::unique_ptr<RateLimiter::Admission> admission) {
  const std::lock_guard lock(mutex_);
  if (!ended_) admission_ = std::move(admission);
}

void RequestScope::ChargeTokens(int64_t tokens) {
  const std::lock_guard lock(mutex_);
  if (admission_ != nullptr) admission_->ChargeTokens(tokens);
}

void RequestScope::SetFigures(RequestFigures figures) {
  const std::lock_guard lock(mutex_);
  figures_ = std::move(figures);
}

void RequestScope::SetStatus(int status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
}

void RequestScope::End() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return;
  admission_.reset();
  if (!quiet_) Tell(std::chrono::duration<double>(Clock::now() - start_).count());
}

void RequestScope::Tell(double seconds) {
  const int64_t ms = Milliseconds(seconds);
  const bool slow = sinks_->slow_request_ms > 0 && ms >= sinks_->slow_request_ms;
  if (sinks_->audit == nullptr && !sinks_->log_requests && !slow) return;
  Json::Object fields{{"request_id", id_}, {"key", Name(client_.name)}, {"address", remote_}, {"method", method_},
                      {"path", route_},    {"status", status_},         {"duration_ms", ms}};
  if (!figures_.model.empty()) {
    const Json::Object more{{"model", figures_.model},
                            {"stream", figures_.stream},
                            {"prompt_tokens", figures_.prompt_tokens},
                            {"cached_tokens", figures_.cached_tokens},
                            {"completion_tokens", figures_.completion_tokens},
                            {"finish_reason", figures_.finish.empty() ? Json() : Json(figures_.finish)}};
    fields.insert(fields.end(), more.begin(), more.end());
  }
  if (sinks_->audit != nullptr) {
    Json::Object record{{"time", base::UtcTimestamp()}};
    record.insert(record.end(), fields.begin(), fields.end());
    sinks_->audit->Write(Json(std::move(record)));
  }
  if (figures_.queue_seconds) fields.emplace_back("queue_ms", Milliseconds(*figures_.queue_seconds));
  if (figures_.first_token_seconds) fields.emplace_back("first_token_ms", Milliseconds(*figures_.first_token_seconds));
  if (slow) {
    base::Log(base::LogLevel::kWarning, "slow request", fields);
  } else if (sinks_->log_requests) {
    base::Log(base::LogLevel::kInfo, "request", fields);
  }
}

}  // namespace peng::server
