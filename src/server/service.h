// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/llm.h"
#include "server/api_error.h"
#include "server/cors.h"
#include "server/http.h"
#include "server/key_ring.h"
#include "server/metrics.h"
#include "server/rate_limit.h"
#include "server/request_scope.h"

namespace peng::server {

struct Route;

struct ServiceOptions {
  std::vector<std::string> model_names;  // at least one; the first is used in replies
  std::shared_ptr<KeyRing> keys;         // null = open
  std::string version;
  int32_t max_model_len = 0;       // for the buckets of the metrics before the model is there; 0 = unknown
  std::string also_accepted = {};  // one more name that requests may use; not listed
  std::optional<base::Sha256Digest> admin_key = {};  // without it the administrative endpoints do not exist
  KeyLimits limits = {};                             // without keys: of all clients together
  RequestSinks sinks = {};
  base::Json settings = {};  // for /server_info: options by name, without secrets
  bool log_prompts = false;
  bool isolate_prefix_cache = false;
  bool strict_params = false;
  bool prompt_tokens_details = false;  // in the usage
  bool force_include_usage = false;    // in streams
  CorsPolicy cors = {};
};

// Everything behind the HTTP connection: the route table, keys, the model once it is loaded. Thread-safe.
class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();

  // For HttpOptions: what can be refused before the body is read, and the handler.
  std::optional<HttpResponse> Precheck(const HttpRequest& head);
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);
  // The handler of the port that only serves /metrics and the probes, without a key.
  void HandleMetricsPort(HttpRequest request, std::shared_ptr<HttpReply> reply);
  // Reads the key file again. A faulty one is logged and the old keys stay.
  void ReloadKeys();
  static std::string ErrorBody(int status, std::string_view message);

  // The model is loaded: from now on the service is ready.
  void SetLlm(std::shared_ptr<api::Llm> llm);
  // New generations are refused from now on; running ones go on.
  void BeginDrain();
  bool draining() const { return draining_; }

  // The model, or why there is none to use now (503).
  std::variant<std::shared_ptr<api::Llm>, ApiError> ReadyLlm() const;
  std::shared_ptr<api::Llm> llm() const;  // null while loading
  Metrics& metrics();

  // nullopt if `model` is served here; empty = the first.
  std::optional<ApiError> CheckModel(const std::string& model) const;
  const ServiceOptions& options() const { return options_; }
  const std::string& model_name() const { return options_.model_names.front(); }
  int64_t created() const { return created_; }  // Unix time of the start
  // Fields of a request that are not known: the refusal with --strict-params. Otherwise each is logged once: a client
  // that sends a field the server does not know should be able to find out.
  std::optional<ApiError> CheckUnknownFields(const std::vector<std::string>& names);

 private:
  const Route* FindRoute(const HttpRequest& request) const;
  bool Exists(const Route& route) const;
  std::string AllowedMethods(std::string_view path) const;
  HttpResponse Preflight(const HttpRequest& request) const;
  std::optional<Client> Identify(const HttpRequest& request) const;
  std::optional<HttpResponse> Refusal(const HttpRequest& head, const Route* route,
                                      const std::optional<Client>& client) const;
  void Run(const Route& route, Client client, const HttpRequest& request, std::shared_ptr<HttpReply> reply);

  ServiceOptions options_;
  const std::shared_ptr<const RequestSinks> sinks_;
  RateLimiter limiter_;
  int64_t created_;
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<api::Llm> llm_;
  std::unique_ptr<Metrics> metrics_;
  std::set<std::string> noted_fields_;
};

}  // namespace peng::server
