// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/audit_log.h"
#include "server/rate_limit.h"

namespace peng::server {

// Where the end of a request is told.
struct RequestSinks {
  std::unique_ptr<AuditLog> audit;  // null = none
  bool log_requests = false;
  int64_t slow_request_ms = 0;  // 0 = none
};

// Who sends a request.
struct Client {
  std::string name = {};  // of the key; empty without keys
  bool admin = false;
  KeyLimits limits = {};
};

// What a generating request came to, over all its choices. Never its content.
struct RequestFigures {
  std::string model = {};
  bool stream = false;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  std::string_view finish = {};  // of the choice that ended last; a name that lives forever
  std::optional<double> queue_seconds = {}, first_token_seconds = {};
};

// One request from its head to the end of its reply, for the log, the audit log and the limits of its key. Thread-safe.
class RequestScope {
 public:
  // `id` is what the client calls the request, or empty. `method` and `route` are those of the route table: what the
  // client sent may hold anything. Of a quiet request nothing is told.
  RequestScope(std::shared_ptr<const RequestSinks> sinks, Client client, std::string_view id, std::string remote,
               std::string_view method, std::string_view route, bool quiet);
  ~RequestScope();  // End

  std::string id() const;
  void set_id(std::string_view id);
  const Client& client() const { return client_; }

  void Admit(std::unique_ptr<RateLimiter::Admission> admission);
  // Tokens that the request turns out to use, as they become known.
  void ChargeTokens(int64_t tokens);
  void SetFigures(RequestFigures figures);
  void SetStatus(int status);
  // Tells what came of the request and gives its place back. Only the first call counts. Without a status of a reply,
  // the client has left before: 499.
  void End();

 private:
  void Tell(double seconds);

  const std::shared_ptr<const RequestSinks> sinks_;
  const Client client_;
  const std::string remote_;
  const std::string_view method_, route_;
  const bool quiet_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::string id_;
  std::unique_ptr<RateLimiter::Admission> admission_;
  RequestFigures figures_;
  int status_ = 499;
  bool ended_ = false;
};

// The client's name for a request, fit for headers and logs: printable ASCII, at most 128 bytes; a random one if it is
// empty.
std::string RequestIdFrom(std::string_view given);

}  // namespace peng::server
