// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/log.h"
#include "server/routes.h"

namespace peng::server {
namespace {

using Clock = std::chrono::steady_clock;

// "Application/JSON; charset=utf-8" -> "application/json"
std::string MediaType(std::string_view header) {
  std::string type = base::AsciiLower(header.substr(0, header.find(';')));
  while (type.ends_with(' ') || type.ends_with('\t')) type.pop_back();
  return type;
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

bool IsPreflight(const HttpRequest& request) { return request.method == "OPTIONS"; }

// A label of a series must not be what a client makes up: each would be a series of its own.
std::string_view KnownMethod(std::string_view method) {
  for (const std::string_view known : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}) {
    if (method == known) return known;
  }
  return "other";
}

// How a refused path is called in the log: that of the route, also with a method that it does not have.
std::string_view PathName(std::string_view path) {
  for (const Route& route : AllRoutes()) {
    if (Matches(route.path, path)) return route.path;
  }
  return "none";
}

std::string_view Label(const Route* route) { return route != nullptr ? route->path : std::string_view("none"); }

// The peer without its port, which changes with every connection.
std::string AddressOf(const HttpRequest& request) { return request.remote.substr(0, request.remote.rfind(':')); }

// The same 401 as vLLM's, which is not of the shape of other errors.
HttpResponse Unauthorized() {
  return {.status = 401, .body = R"({"error":"Unauthorized"})", .headers = {{"WWW-Authenticate", "Bearer"}}};
}

HttpResponse TooMany(const RateLimiter::Refusal& refusal) {
  ApiError error = StatusError(429, refusal.message);
  error.retry_after_seconds = static_cast<int>(refusal.retry_after_seconds);
  return ToResponse(error);
}

// Counts the request when its reply starts, and ends its scope with the reply.
class CountedReply final : public HttpReply {
 public:
  CountedReply(std::shared_ptr<HttpReply> next, Metrics* metrics, std::shared_ptr<RequestScope> scope,
               std::string_view method, std::string_view handler)
      : next_(std::move(next)), metrics_(metrics), scope_(std::move(scope)), method_(method), handler_(handler) {}

  void Send(HttpResponse response) override {
    Begin(response.status, &response.headers);
    scope_->End();
    next_->Send(std::move(response));
  }
  void Start(int status, std::string_view content_type, HttpHeaders headers) override {
    Begin(status, &headers);
    next_->Start(status, content_type, std::move(headers));
  }
  void CarryStreams(size_t streams) override { next_->CarryStreams(streams); }
  bool Write(std::string_view bytes) override { return next_->Write(bytes); }
  void Finish() override {
    scope_->End();
    next_->Finish();
  }
  void OnDisconnect(std::function<void()> gone) override {
    next_->OnDisconnect([scope = scope_, gone = std::move(gone)] {
      gone();
      scope->End();
    });
  }
  void AddHeaders(const HttpHeaders& headers) { headers_.insert(headers_.end(), headers.begin(), headers.end()); }

 private:
  void Begin(int status, HttpHeaders* headers) {
    headers->emplace_back("X-Request-Id", scope_->id());
    headers->insert(headers->end(), headers_.begin(), headers_.end());
    scope_->SetStatus(status);
    if (metrics_ == nullptr) return;
    const std::chrono::duration<double> elapsed = Clock::now() - start_;
    metrics_->ObserveHttp(method_, handler_, status, elapsed.count());
  }

  std::shared_ptr<HttpReply> next_;
  Metrics* metrics_;  // null for what is not counted
  std::shared_ptr<RequestScope> scope_;
  std::string_view method_;
  std::string_view handler_;
  HttpHeaders headers_;
  Clock::time_point start_ = Clock::now();
};

// "messages[17].foo" -> "messages[].foo": the log names a field once, not once per message.
std::string WithoutIndices(std::string_view name) {
  std::string shape;
  bool inside = false;
  for (const char c : name) {
    if (c == ']') inside = false;
    if (!inside) shape += c;
    if (c == '[') inside = true;
  }
  return shape;
}

// What cannot be taken for a field's name may be a piece of a prompt that a broken client put there.
bool IsPlainName(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-.[]").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

HttpHeaders LimitHeaders(const KeyLimits& limits, const RateLimiter::Remaining& left) {
  HttpHeaders headers;
  const auto add = [&](const char* what, int64_t limit, int64_t remaining) {
    if (limit <= 0) return;
    headers.emplace_back(std::string("X-RateLimit-Limit-") + what, std::to_string(limit));
    headers.emplace_back(std::string("X-RateLimit-Remaining-") + what, std::to_string(remaining));
  };
  add("Requests", limits.requests_per_minute, left.requests);
  add("Tokens", limits.tokens_per_minute, left.tokens);
  return headers;
}

}  // namespace

Service::Service(ServiceOptions options)
    : options_(std::move(options)),
      sinks_(std::make_shared<const RequestSinks>(std::move(options_.sinks))),
      created_(static_cast<int64_t>(std::time(nullptr))),
      metrics_(std::make_unique<Metrics>(options_.model_names.front(),
                                         options_.max_model_len > 0 ? options_.max_model_len : 131072)) {}

Service::~Service() = default;

std::string Service::ErrorBody(int status, std::string_view message) {
  return ToJson(StatusError(status, std::string(message))).Dump();
}

bool Service::Exists(const Route& route) const { return route.access != Access::kAdmin || options_.admin_key; }

const Route* Service::FindRoute(const HttpRequest& request) const {
  for (const Route& route : AllRoutes()) {
    if (route.method == RouteMethod(request) && Matches(route.path, request.path) && Exists(route)) return &route;
  }
  return nullptr;
}

// The methods of a path, for Allow; empty if there is no such path.
std::string Service::AllowedMethods(std::string_view path) const {
  std::string methods;
  for (const Route& route : AllRoutes()) {
    if (!Matches(route.path, path) || !Exists(route)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return methods;
}

// Whether the browser may go on is told by the headers, which HttpOptions::reply_headers completes.
HttpResponse Service::Preflight(const HttpRequest& request) const {
  std::string methods = request.path == "*" ? "GET, HEAD, POST" : AllowedMethods(request.path);
  if (methods.empty()) return {.status = 404, .content_type = ""};
  methods += ", OPTIONS";
  HttpResponse response{
      .status = 204, .content_type = "", .headers = PreflightHeaders(options_.cors, request, methods)};
  response.headers.emplace_back("Allow", methods);
  return response;
}

std::optional<HttpResponse> Service::Precheck(const HttpRequest& head) {
  if (IsPreflight(head)) return Preflight(head);
  const Route* route = FindRoute(head);
  std::optional<Client> client = Identify(head);
  std::optional<HttpResponse> refusal = Refusal(head, route, client);
  if (!refusal) return std::nullopt;
  RequestScope scope(sinks_, client.value_or(Client()), head.Header("X-Request-Id"), AddressOf(head),
                     KnownMethod(head.method), PathName(head.path),
                     route != nullptr && route->traffic != Traffic::kRequest);
  scope.SetStatus(refusal->status);
  metrics().ObserveHttp(KnownMethod(head.method), Label(route), refusal->status, 0);
  refusal->headers.emplace_back("X-Request-Id", scope.id());
  return refusal;
}

// Deny by default: a path that is not in the table wants a key as well, before it is said that it does not exist.
std::optional<HttpResponse> Service::Refusal(const HttpRequest& head, const Route* route,
                                             const std::optional<Client>& client) const {
  const Access access = route != nullptr ? route->access : Access::kKey;
  if (access != Access::kOpen && !client) return Unauthorized();
  if (access == Access::kAdmin && !client->admin) {
    // Without API keys nobody has shown one, so there is one to ask for.
    if (client->name.empty()) return Unauthorized();
    return ToResponse(StatusError(403, "This endpoint wants the key of --admin-key."));
  }
  if (route == nullptr) {
    const std::string allowed = AllowedMethods(head.path);
    HttpResponse refusal =
        ToResponse(allowed.empty() ? StatusError(404, "Not Found") : StatusError(405, "Method Not Allowed"));
    if (!allowed.empty()) refusal.headers.emplace_back("Allow", allowed);
    return refusal;
  }
  if (head.method == "POST" && route->handler != &Ping && route->handler != &ResetPrefixCache) {
    const std::string_view type = head.Header("Content-Type");
    if (MediaType(type) != "application/json") {
      return ToResponse(SchemaError("Unsupported Media Type: Only 'application/json' is allowed", "Content-Type"));
    }
  }
  return std::nullopt;
}

void Service::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  const Route* route = FindRoute(request);
  if (route == nullptr) return reply->Send(ToResponse(StatusError(404, "Not Found")));  // Precheck was not asked
  Run(*route, Identify(request).value_or(Client()), request, std::move(reply));
}

void Service::HandleMetricsPort(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  const Route* route = FindRoute(request);
  if (route == nullptr || route->traffic != Traffic::kProbe)
    return reply->Send(ToResponse(StatusError(404, "Not Found")));
  Run(*route, {}, request, std::move(reply));
}

void Service::Run(const Route& route, Client client, const HttpRequest& request, std::shared_ptr<HttpReply> reply) {
  auto scope =
      std::make_shared<RequestScope>(sinks_, std::move(client), request.Header("X-Request-Id"), AddressOf(request),
                                     KnownMethod(request.method), route.path, route.traffic != Traffic::kRequest);
  auto counted =
      std::make_shared<CountedReply>(std::move(reply), route.traffic == Traffic::kProbe ? nullptr : &metrics(), scope,
                                     KnownMethod(request.method), route.path);
  std::string_view tail;
  if (route.path.ends_with('*')) tail = std::string_view(request.path).substr(route.path.size() - 1);
  try {
    if (route.method == "POST" && route.access == Access::kKey && scope->client().limits.any()) {
      const KeyLimits& limits = scope->client().limits;
      auto outcome = limiter_.Begin(scope->client().name, limits);
      if (const auto* refusal = std::get_if<RateLimiter::Refusal>(&outcome)) return counted->Send(TooMany(*refusal));
      auto& admission = std::get<0>(outcome);
      counted->AddHeaders(LimitHeaders(limits, admission->remaining()));
      scope->Admit(std::move(admission));
    }
    route.handler(Call{*this, request, counted, tail, scope});
  } catch (const std::exception& e) {
    base::Log(base::LogLevel::kError, "request failed",
              {{"request_id", scope->id()}, {"path", route.path}, {"error", base::Printable(e.what())}});
    counted->Send(ToResponse(StatusError(500, "Internal server error.")));
  }
}

// The client that the key of a request names; without keys, one that everybody is. nullopt for a wrong or missing key.
std::optional<Client> Service::Identify(const HttpRequest& request) const {
  std::string_view given = request.Header("X-Api-Key");  // where clients of Anthropic's API have it
  const std::string_view header = request.Header("Authorization");
  const bool bearer = base::AsciiLower(header.substr(0, 7)) == "bearer ";
  if (!header.empty()) given = bearer ? header.substr(7) : std::string_view();
  const bool admin = options_.admin_key && HasDigest(given, *options_.admin_key);
  const auto key = options_.keys != nullptr ? options_.keys->Find(given) : nullptr;
  if (admin) return Client{.name = "admin", .admin = true};
  if (key != nullptr) return Client{.name = key->name, .limits = key->limits};
  if (options_.keys == nullptr) return Client{.limits = options_.limits};
  return std::nullopt;
}

void Service::ReloadKeys() {
  if (options_.keys == nullptr) return;
  try {
    options_.keys->Reload();
    base::LogInfo("{} API keys are valid now", options_.keys->size());
  } catch (const base::Error& e) {
    base::LogError("the API keys stay as they were: {}", e.what());
  }
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

std::optional<ApiError> Service::CheckUnknownFields(const std::vector<std::string>& names) {
  constexpr size_t kMaxNoted = 256;
  if (options_.strict_params && !names.empty()) {
    return BadRequest("Unknown field '" + names[0] + "'. This server accepts only fields that it knows.", names[0]);
  }
  for (const std::string& name : names) {
    const std::string shape = WithoutIndices(name);
    std::lock_guard lock(mutex_);
    if (noted_fields_.size() >= kMaxNoted) break;
    if (!noted_fields_.insert(shape).second) continue;
    base::LogWarning("request field \"{}\" is not known and is ignored", IsPlainName(shape) ? shape : "(not shown)");
  }
  return std::nullopt;
}

}  // namespace peng::server
