// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "server/routes.h"

namespace peng::server {
namespace {

using Clock = std::chrono::steady_clock;

std::string Digest(std::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

bool Matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

// HEAD is answered wherever GET is.
std::string_view RouteMethod(const HttpRequest& request) {
  return request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
}

const Route* FindRoute(const HttpRequest& request) {
  for (const Route& route : AllRoutes()) {
    if (route.method == RouteMethod(request) && Matches(route.path, request.path)) return &route;
  }
  return nullptr;
}

// The methods of a path, for Allow; empty if there is no such path.
std::string AllowedMethods(std::string_view path) {
  std::string methods;
  for (const Route& route : AllRoutes()) {
    if (!Matches(route.path, path)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return methods;
}

bool IsPreflight(const HttpRequest& request) { return request.method == "OPTIONS"; }

HttpResponse Preflight(const HttpRequest& request) {
  const std::string methods = AllowedMethods(request.path);
  HttpResponse response{.status = methods.empty() ? 404 : 204, .content_type = ""};
  std::string_view headers = request.Header("Access-Control-Request-Headers");
  response.headers = {{"Access-Control-Allow-Origin", "*"},
                      {"Access-Control-Allow-Methods", methods + ", OPTIONS"},
                      {"Access-Control-Allow-Headers", std::string(headers.empty() ? "*" : headers)},
                      {"Access-Control-Max-Age", "600"}};
  return response;
}

// The same 401 as vLLM's, which is not of the shape of other errors.
HttpResponse Unauthorized() {
  return {.status = 401, .body = R"({"error":"Unauthorized"})", .headers = {{"WWW-Authenticate", "Bearer"}}};
}

void AllowAnyOrigin(HttpHeaders* headers) { headers->emplace_back("Access-Control-Allow-Origin", "*"); }

// Counts the request when its reply starts, and lets pages of other origins read it.
class CountedReply final : public HttpReply {
 public:
  CountedReply(std::shared_ptr<HttpReply> next, Metrics* metrics, std::string method, std::string_view handler)
      : next_(std::move(next)), metrics_(metrics), method_(std::move(method)), handler_(handler) {}

  void Send(HttpResponse response) override {
    Count(response.status);
    AllowAnyOrigin(&response.headers);
    next_->Send(std::move(response));
  }
  void Start(int status, std::string_view content_type, HttpHeaders headers) override {
    Count(status);
    AllowAnyOrigin(&headers);
    next_->Start(status, content_type, std::move(headers));
  }
  bool Write(std::string_view bytes) override { return next_->Write(bytes); }
  void Finish() override { next_->Finish(); }
  void OnDisconnect(std::function<void()> gone) override { next_->OnDisconnect(std::move(gone)); }

 private:
  void Count(int status) {
    if (metrics_ == nullptr || handler_ == "/metrics" || handler_ == "/health" || handler_ == "/ping") return;
    const std::chrono::duration<double> elapsed = Clock::now() - start_;
    metrics_->ObserveHttp(method_, handler_, status, elapsed.count());
  }

  std::shared_ptr<HttpReply> next_;
  Metrics* metrics_;
  std::string method_;
  std::string_view handler_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Service::Service(ServiceOptions options)
    : options_(std::move(options)),
      created_(static_cast<int64_t>(std::time(nullptr))),
      metrics_(std::make_unique<Metrics>(options_.model_names.front(),
                                         options_.max_model_len > 0 ? options_.max_model_len : 131072)) {
  for (const std::string& key : options_.api_keys) key_digests_.push_back(Digest(key));
}

Service::~Service() = default;

std::string Service::ErrorBody(int status, std::string_view message) {
  return ToJson(StatusError(status, std::string(message))).Dump();
}

std::optional<HttpResponse> Service::Precheck(const HttpRequest& head) {
  if (IsPreflight(head)) return Preflight(head);
  const Route* route = FindRoute(head);
  const bool open = route != nullptr && route->access == Access::kOpen;
  std::optional<HttpResponse> refusal;
  if (!open && !Authorized(head)) {
    refusal = Unauthorized();
  } else if (route == nullptr) {
    const std::string allowed = AllowedMethods(head.path);
    refusal = ToResponse(allowed.empty() ? StatusError(404, "Not Found") : StatusError(405, "Method Not Allowed"));
    if (!allowed.empty()) refusal->headers.emplace_back("Allow", allowed);
  } else if (head.method == "POST" && route->handler != &Ping) {
    const std::string_view type = head.Header("Content-Type");
    if (Lower(type.substr(0, type.find(';'))).find("application/json") != 0) {
      refusal = ToResponse(SchemaError("Unsupported Media Type: Only 'application/json' is allowed", "Content-Type"));
    }
  }
  if (refusal) {
    metrics().ObserveHttp(head.method, route != nullptr ? route->path : "none", refusal->status, 0);
    AllowAnyOrigin(&refusal->headers);
  }
  return refusal;
}

void Service::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  const Route* route = FindRoute(request);
  if (route == nullptr) return reply->Send(ToResponse(StatusError(404, "Not Found")));  // Precheck was not asked
  auto counted = std::make_shared<CountedReply>(std::move(reply), &metrics(), request.method, route->path);
  std::string_view tail;
  if (route->path.ends_with('*')) tail = std::string_view(request.path).substr(route->path.size() - 1);
  try {
    route->handler(Call{*this, request, counted, tail});
  } catch (const std::exception& e) {
    base::LogError("{} {}: {}", request.method, route->path, base::Printable(e.what()));
    counted->Send(ToResponse(StatusError(500, "Internal server error.")));
  }
}

// Every key is compared in full, so that the time tells nothing.
bool Service::Authorized(const HttpRequest& request) const {
  if (key_digests_.empty()) return true;
  const std::string_view header = request.Header("Authorization");
  const bool bearer = Lower(header.substr(0, 7)) == "bearer ";
  const std::string given = Digest(bearer ? header.substr(7) : std::string_view());
  bool match = false;
  for (const std::string& digest : key_digests_) {
    match |= CRYPTO_memcmp(digest.data(), given.data(), digest.size()) == 0;
  }
  return bearer && match;
}

void Service::SetLlm(std::shared_ptr<api::Llm> llm) {
  std::lock_guard lock(mutex_);
  llm_ = std::move(llm);
}

void Service::BeginDrain() { draining_ = true; }

std::shared_ptr<api::Llm> Service::llm() const {
  std::lock_guard lock(mutex_);
  return llm_;
}

std::variant<std::shared_ptr<api::Llm>, ApiError> Service::ReadyLlm() const {
  auto current = llm();
  if (draining_) return StatusError(503, "The server is shutting down.");
  if (current == nullptr) return StatusError(503, "The model is still loading.");
  if (current->Health() == engine::EngineHealth::kDead) return StatusError(500, "The engine has stopped.");
  return current;
}

Metrics& Service::metrics() { return *metrics_; }

std::optional<ApiError> Service::CheckModel(const std::string& model) const {
  const auto& names = options_.model_names;
  if (model.empty() || model == options_.also_accepted) return std::nullopt;
  if (std::find(names.begin(), names.end(), model) != names.end()) return std::nullopt;
  std::string served;
  for (const std::string& name : names) served += (served.empty() ? "`" : ", `") + name + "`";
  ApiError error = StatusError(
      404, "The model `" + base::Printable(model, 128) + "` does not exist. This server serves " + served + ".");
  error.param = "model";
  return error;
}

void Service::NoteUnknownFields(const std::vector<std::string>& names) {
  constexpr size_t kMaxNoted = 256;
  for (const std::string& name : names) {
    std::lock_guard lock(mutex_);
    if (noted_fields_.size() >= kMaxNoted || !noted_fields_.insert(name).second) continue;
    base::LogWarning("request field \"{}\" is not known and is ignored", name);
  }
}

}  // namespace peng::server
