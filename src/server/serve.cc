// SPDX-License-Identifier: Apache-2.0
#include "server/serve.h"

#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "api/build.h"
#include "api/version.h"
#include "base/error.h"
#include "base/log.h"
#include "server/http.h"
#include "server/service.h"

namespace peng::server {
namespace {

using std::chrono::milliseconds;

// The first SIGTERM or SIGINT asks for an orderly end, the second ends the process at once. While the model loads there
// is nothing to drain, so the first one ends it. Supervisors that signal both the process and its group send each
// signal twice: one that follows so soon is the same one.
class Signals {
 public:
  Signals() {
    ::signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
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
  void set_loaded() { loaded_ = true; }

 private:
  void Watch(const std::stop_token& stop) {
    constexpr milliseconds kEcho{300};
    const timespec tick{0, 200'000'000};
    std::chrono::steady_clock::time_point asked_at;
    while (!stop.stop_requested()) {
      const int signal = sigtimedwait(&set_, nullptr, &tick);
      if (signal < 0) continue;
      const auto now = std::chrono::steady_clock::now();
      if (asked_) {
        if (now - asked_at < kEcho) continue;
        base::LogWarning("second signal: exiting at once");
        _exit(1);
      }
      if (!loaded_) {
        base::LogInfo("{} while loading: exiting", strsignal(signal));
        _exit(0);
      }
      asked_ = true;
      asked_at = now;
    }
  }

  sigset_t set_{}, before_{};
  std::atomic<bool> asked_{false}, loaded_{false};
  std::jthread thread_;
};

std::string HostFor(const base::ServeOptions& options) {
  if (!options.host.empty()) return options.host;
  return options.api_key.empty() ? "127.0.0.1" : "0.0.0.0";
}

// Without --served-model-name: the file or folder without its path and extension.
std::string NameOf(const std::string& model) {
  std::filesystem::path path(model);
  if (!path.has_filename()) path = path.parent_path();
  const std::string extension = path.extension().string();
  if (extension == ".gguf" || extension == ".safetensors") path.replace_extension();
  return path.filename().string();
}

ServiceOptions MakeServiceOptions(const base::ServeOptions& options) {
  ServiceOptions service;
  service.model_names = options.served_model_name;
  if (service.model_names.empty()) {
    service.model_names = {NameOf(options.model)};
    if (options.model != service.model_names[0]) service.also_accepted = options.model;
  }
  service.api_keys = options.api_key;
  if (std::find(service.api_keys.begin(), service.api_keys.end(), "") != service.api_keys.end()) {
    throw base::Error(base::ErrorKind::kUsage, "--api-key", "is empty", "give a key, or leave it out to serve without");
  }
  service.version = api::Version();
  service.max_model_len = static_cast<int32_t>(std::max<int64_t>(0, options.max_model_len));
  return service;
}

void LogAddress(const std::string& host, uint16_t port, const base::ServeOptions& options) {
  const bool v6 = host.find(':') != std::string::npos;
  const std::string shown = v6 ? "[" + host + "]" : host;
  base::LogInfo("listening on http://{}:{} (not ready until the model is loaded)", shown, port);
  const bool local = host == "127.0.0.1" || host == "::1" || host == "localhost";
  if (!local && options.api_key.empty()) {
    base::LogWarning("the address is open to other machines and no --api-key is set: anyone who reaches it may use it");
  }
}

// Waits until a signal asks for the end, or the engine is dead. True for a signal.
bool AwaitEnd(const Signals& signals, const api::Llm& llm) {
  while (!signals.asked()) {
    if (llm.Health() == engine::EngineHealth::kDead) return false;
    std::this_thread::sleep_for(milliseconds(100));
  }
  return true;
}

void Drain(Service& service, HttpServer& http, const api::Llm& llm, double seconds) {
  service.BeginDrain();
  const int running = llm.RunningGenerations();
  base::LogInfo("shutting down: {} generation(s) running, up to {} s for them", running, seconds);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (llm.RunningGenerations() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (const int left = llm.RunningGenerations(); left > 0) base::LogWarning("{} generation(s) cut off", left);
  // Time to write what is made but not yet sent; readers that take longer are cut off as well.
  http.Drain(llm.RunningGenerations() > 0 ? milliseconds(0) : milliseconds(5000));
}

}  // namespace

int RunServer(const base::ServeOptions& options) {
  Signals signals;
  Service service(MakeServiceOptions(options));
  HttpOptions http_options;
  http_options.host = HostFor(options);
  http_options.port = static_cast<uint16_t>(options.port);
  http_options.error_body = Service::ErrorBody;
  http_options.precheck = [&service](const HttpRequest& head) { return service.Precheck(head); };
  HttpServer http(std::move(http_options), [&service](HttpRequest request, std::shared_ptr<HttpReply> reply) {
    service.Handle(std::move(request), std::move(reply));
  });
  LogAddress(HostFor(options), http.port(), options);

  std::shared_ptr<api::Llm> llm = api::BuildLlm(options);
  service.SetLlm(llm);
  signals.set_loaded();
  sd_notify(0, "READY=1\nSTATUS=Serving");
  base::LogInfo("ready: http://{}:{}/v1 serves {}", HostFor(options), http.port(), service.model_name());

  const bool orderly = AwaitEnd(signals, *llm);
  sd_notify(0, "STOPPING=1");
  if (!orderly) base::LogError("the engine has stopped; exiting");
  Drain(service, http, *llm, orderly ? options.drain_timeout : 0);
  llm->Shutdown();
  base::LogInfo("stopped");
  return orderly ? 0 : 1;
}

}  // namespace peng::server
