// SPDX-License-Identifier: Apache-2.0
#include "server/serve.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "api/build.h"
#include "api/version.h"
#include "base/error.h"
#include "base/log.h"
#include "server/http.h"
#include "server/service.h"
#include "server/tls_refresh.h"
#include "server/watchdog.h"

namespace peng::server {
namespace {

using std::chrono::milliseconds;

// The first SIGTERM or SIGINT asks for an orderly end, the second ends the process at once. While the model loads there
// is nothing to drain, so the first one ends it. Supervisors that signal both the process and its group send each
// signal twice: one that follows so soon is the same one.
class Signals {
 public:
  // Without anything to read again, SIGHUP keeps its meaning: the terminal is gone.
  explicit Signals(bool reload_on_hangup) {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    if (reload_on_hangup) sigaddset(&set_, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    thread_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
  }
  ~Signals() {
    thread_.request_stop();
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  bool asked() const { return asked_; }
  // True once after a SIGHUP.
  bool TakeHangup() { return hangup_.exchange(false); }
  // What an exit at once must not leave behind. Before the first signal is expected.
  void set_cleanup(std::function<void()> cleanup) {
    std::lock_guard lock(mutex_);
    cleanup_ = std::move(cleanup);
  }
  void set_loaded() { loaded_ = true; }
  // The process ends by itself: from now on the first signal ends it at once.
  void set_ending() { asked_ = true; }
  // If the process is still there after `limit`, it is ended with `code` and a warning about what it waited for.
  void EndWithin(milliseconds limit, int code, std::string waits_for) {
    std::lock_guard lock(mutex_);
    end_ = {std::chrono::steady_clock::now() + limit, code, std::move(waits_for)};
  }
  // Ends the process without destructors.
  [[noreturn]] void ExitNow(int code) {
    {
      std::lock_guard lock(mutex_);
      if (cleanup_) cleanup_();
    }
    _exit(code);
  }

 private:
  struct End {
    std::chrono::steady_clock::time_point at;
    int code = 0;
    std::string waits_for;
  };

  void Watch(const std::stop_token& stop) {
    constexpr milliseconds kEcho{300};
    const timespec tick{0, 200'000'000};
    std::chrono::steady_clock::time_point asked_at;
    while (!stop.stop_requested()) {
      const int signal = sigtimedwait(&set_, nullptr, &tick);
      ExitWhenOverdue();
      if (signal < 0) continue;
      if (signal == SIGHUP) {
        hangup_ = true;
        continue;
      }
      const auto now = std::chrono::steady_clock::now();
      if (asked_) {
        if (now - asked_at < kEcho) continue;
        base::LogWarning("second signal: exiting at once");
        ExitNow(1);
      }
      if (!loaded_) {
        base::LogInfo("{} while loading: exiting", strsignal(signal));
        ExitNow(0);
      }
      asked_ = true;
      asked_at = now;
    }
  }

  void ExitWhenOverdue() {
    std::optional<End> end;
    {
      std::lock_guard lock(mutex_);
      end = end_;
    }
    if (!end || std::chrono::steady_clock::now() < end->at) return;
    base::LogWarning("exiting without waiting for {}", end->waits_for);
    ExitNow(end->code);
  }

  sigset_t set_{}, before_{};
  std::atomic<bool> asked_{false}, loaded_{false}, hangup_{false};
  std::mutex mutex_;
  std::function<void()> cleanup_;
  std::optional<End> end_;
  std::jthread thread_;
};

bool HasKeys(const base::ServeOptions& options) { return !options.api_key.empty() || !options.api_key_file.empty(); }

std::string HostFor(const base::ServeOptions& options) {
  if (!options.host.empty()) return options.host;
  return HasKeys(options) ? "0.0.0.0" : "127.0.0.1";
}

// Without --served-model-name: the file or folder without its path and extension.
std::string NameOf(const std::string& model) {
  std::filesystem::path path(model);
  if (!path.has_filename()) path = path.parent_path();
  const std::string extension = path.extension().string();
  if (extension == ".gguf" || extension == ".safetensors") path.replace_extension();
  return path.filename().string();
}

void ApplyAccess(const base::ServeOptions& options, ServiceOptions* service) {
  service->limits = {options.key_requests_per_minute, options.key_tokens_per_minute, options.key_max_concurrency};
  if (HasKeys(options)) {
    service->keys = std::make_shared<KeyRing>(KeyRingOptions{options.api_key, options.api_key_file, service->limits});
  }
  if (!options.admin_key.empty()) service->admin_key = base::Sha256::Of(options.admin_key);
  if (options.isolate_prefix_cache && !HasKeys(options)) {
    throw base::Error(base::ErrorKind::kUsage, "--isolate-prefix-cache", "keeps keys apart, but there are none",
                      "set --api-key-file or --api-key, or leave it out");
  }
  service->isolate_prefix_cache = options.isolate_prefix_cache;
  service->log_prompts = options.log_prompts;
  if (!options.audit_log.empty()) service->sinks.audit = std::make_unique<AuditLog>(options.audit_log);
  service->sinks.log_requests = options.enable_log_requests;
  service->sinks.slow_request_ms = options.slow_request_ms;
  service->settings = base::SettingsJson(options);
}

// Of the keys only their digests are kept.
void HideKeys(base::ServeOptions* options) {
  for (std::string& key : options->api_key) {
    WipeText(&key);
    key = "(hidden)";
  }
  WipeText(&options->admin_key);
}

// The names are parts of URLs and of the text of metrics.
void CheckNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!name.empty() && base::Printable(name, 256) == name) continue;
    throw base::Error(base::ErrorKind::kUsage, "--served-model-name",
                      name.empty() ? "is empty" : "\"" + base::Printable(name) + "\" is no name",
                      "give 1 to 256 bytes of printable text, or leave it out");
  }
}

ServiceOptions MakeServiceOptions(const base::ServeOptions& options) {
  CheckNames(options.served_model_name);
  ServiceOptions service;
  service.model_names = options.served_model_name;
  if (service.model_names.empty()) {
    service.model_names = {NameOf(options.model)};
    if (options.model != service.model_names[0]) service.also_accepted = options.model;
  }
  service.cors = {options.allowed_origins, options.allowed_methods, options.allowed_headers, options.allow_credentials};
  ApplyAccess(options, &service);
  service.strict_params = options.strict_params;
  service.prompt_tokens_details = options.enable_prompt_tokens_details;
  service.force_include_usage = options.enable_force_include_usage;
  service.version = api::Version();
  service.max_model_len = static_cast<int32_t>(std::max<int64_t>(0, options.max_model_len));
  return service;
}

// A core dump holds every prompt in memory. A limit of 1 byte keeps dumps from files and, as Linux has it, from
// programs that core_pattern names, which a limit of 0 does not.
void ForbidCoreDumps() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  ::setrlimit(RLIMIT_CORE, &limit);
  if (limit.rlim_max == 0) ::prctl(PR_SET_DUMPABLE, 0);
}

// The last lines may still wait for a reader that is merely slow.
void FlushLogBriefly() {
  for (int i = 0; i < 25 && !base::FlushLog(); ++i) std::this_thread::sleep_for(milliseconds(20));
}

HttpOptions MakeHttpOptions(const base::ServeOptions& options) {
  if (options.ssl_certfile.empty() && !options.ssl_keyfile.empty()) {
    throw base::Error(base::ErrorKind::kUsage, "--ssl-keyfile", "has no certificate", "name one with --ssl-certfile");
  }
  HttpOptions http;
  http.host = HostFor(options);
  http.port = static_cast<uint16_t>(options.port);
  http.uds = options.uds;
  http.tls = {options.ssl_certfile, options.ssl_keyfile, options.ssl_ca_certs, static_cast<int>(options.ssl_cert_reqs),
              options.ssl_ciphers};
  http.root_path = options.root_path;
  http.limits.header_bytes = static_cast<size_t>(options.h11_max_incomplete_event_size);
  http.limits.header_count = static_cast<size_t>(options.h11_max_header_count);
  http.limits.body_bytes = static_cast<size_t>(options.max_body_bytes);
  http.limits.all_body_bytes = std::max(http.limits.all_body_bytes, 4 * http.limits.body_bytes);
  http.limits.idle = std::chrono::seconds(options.timeout_keep_alive);
  http.sse_keep_alive = std::chrono::seconds(options.sse_keep_alive_interval);
  http.error_body = Service::ErrorBody;
  return http;
}

void LogAddress(const HttpServer& http, const base::ServeOptions& options) {
  base::LogInfo("listening on {} (not ready until the model is loaded)", http.address());
  const std::string host = HostFor(options);
  const bool local = host == "127.0.0.1" || host == "::1" || host == "[::1]" || host == "localhost";
  if (!local && options.uds.empty() && !HasKeys(options)) {
    base::LogWarning(
        "the address is open to other machines and no API key is set: anyone who reaches it may use it; set --api-key "
        "or --api-key-file");
  }
}

// Null without --metrics-port.
std::unique_ptr<HttpServer> ServeMetrics(const base::ServeOptions& options, Service& service) {
  if (options.metrics_port < 0) return nullptr;
  HttpOptions http;
  http.host = HostFor(options);
  http.port = static_cast<uint16_t>(options.metrics_port);
  http.io_threads = http.worker_threads = 1;
  http.limits.connections = 64;
  http.limits.body_bytes = 0;
  http.error_body = Service::ErrorBody;
  auto server =
      std::make_unique<HttpServer>(std::move(http), [&service](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        service.HandleMetricsPort(std::move(request), std::move(reply));
      });
  base::LogInfo("metrics without a key on port {}", server->port());
  return server;
}

// Waits until a signal asks for the end, or the engine is dead. True for a signal.
bool AwaitEnd(Signals& signals, const api::Llm& llm, Service& service, TlsRefresh& tls, Watchdog& watchdog) {
  while (!signals.asked()) {
    base::FlushLog();
    if (llm.Health() == engine::EngineHealth::kDead) return false;
    watchdog.Tick();
    tls.Tick();
    if (signals.TakeHangup()) {
      service.ReloadKeys();
      tls.Reload();
    }
    std::this_thread::sleep_for(milliseconds(100));
  }
  return true;
}

void Drain(Service& service, HttpServer& http, const api::Llm& llm, Watchdog& watchdog, double seconds) {
  service.BeginDrain();
  http.StopKeepAlive();  // clients behind a balancer go elsewhere; probes are still answered
  const int running = llm.RunningGenerations();
  base::LogInfo("shutting down: {} generation(s) running, up to {} s for them", running, seconds);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  // What is being parsed and tokenized becomes a generation.
  const auto at_work = [&] { return llm.RunningGenerations() > 0 || !http.AwaitHandlers(milliseconds(0)).empty(); };
  while (at_work() && std::chrono::steady_clock::now() < end) {
    watchdog.Tick();
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (const int left = llm.RunningGenerations(); left > 0) base::LogWarning("{} generation(s) cut off", left);
  // Time to write what is made but not yet sent; readers that take longer are cut off as well.
  http.Drain(at_work() ? milliseconds(0) : milliseconds(5000));
}

// A handler cannot be interrupted, and it does not have to be waited for: it holds nothing that outlives the process.
void EndIfHandlersStay(Signals& signals, HttpServer& http, int code) {
  constexpr milliseconds kPatience{1500};
  const std::vector<std::string> left = http.AwaitHandlers(kPatience);
  if (left.empty()) return;
  constexpr size_t kShown = 4;
  std::string names;
  for (size_t i = 0; i < std::min(kShown, left.size()); ++i) names += (i == 0 ? "" : ", ") + left[i];
  if (left.size() > kShown) names += ", ...";
  base::LogWarning("exiting without waiting for {} request(s) that are still being prepared: {}", left.size(), names);
  FlushLogBriefly();
  signals.ExitNow(code);
}

}  // namespace

int RunServer(base::ServeOptions options) {
  Signals signals(!options.api_key_file.empty() || !options.audit_log.empty() || !options.ssl_certfile.empty());
  if (!options.log_prompts) ForbidCoreDumps();
  api::CheckSettings(options);
  Service service(MakeServiceOptions(options));
  HideKeys(&options);
  HttpOptions http_options = MakeHttpOptions(options);
  http_options.reply_headers = [&service](const HttpRequest& head) {
    return CorsHeaders(service.options().cors, head);
  };
  http_options.precheck = [&service](const HttpRequest& head) { return service.Precheck(head); };
  HttpServer http(std::move(http_options), [&service](HttpRequest request, std::shared_ptr<HttpReply> reply) {
    service.Handle(std::move(request), std::move(reply));
  });
  signals.set_cleanup([&http] { http.RemoveSocketFile(); });
  const std::shared_ptr<void> cleanup(nullptr, [&signals](void*) { signals.set_cleanup({}); });
  LogAddress(http, options);
  const std::unique_ptr<HttpServer> metrics_port = ServeMetrics(options, service);

  std::shared_ptr<api::Llm> llm = api::BuildLlm(options);
  service.SetLlm(llm);
  signals.set_loaded();
  Watchdog watchdog;
  TlsRefresh tls([&http] { http.ReloadTls(); }, {options.ssl_certfile, options.ssl_keyfile, options.ssl_ca_certs},
                 options.enable_ssl_refresh);
  sd_notify(0, "READY=1\nSTATUS=Serving");
  base::LogInfo("ready: {}{} serves {}", http.address(), options.uds.empty() ? "/v1" : "", service.model_name());

  const bool orderly = AwaitEnd(signals, *llm, service, tls, watchdog);
  sd_notify(0, "STOPPING=1");
  if (!orderly) {
    base::LogError("the engine has stopped; exiting");
    signals.set_ending();
  }
  const int code = orderly ? 0 : 1;
  Drain(service, http, *llm, watchdog, orderly ? options.drain_timeout : 0);
  EndIfHandlersStay(signals, http, code);
  signals.EndWithin(milliseconds(5000), code, "the last step of the engine");
  llm->Shutdown();
  base::LogInfo("stopped");
  FlushLogBriefly();
  return code;
}

}  // namespace peng::server
