// SPDX-License-Identifier: Apache-2.0
#include "server/tls_refresh.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace peng::server {

TlsRefresh::TlsRefresh(std::function<void()> reload, const std::vector<std::string>& paths, bool watch)
    : reload_(std::move(reload)), watch_(watch) {
  for (const std::string& path : paths) {
    if (!path.empty()) paths_.push_back(path);
  }
  seen_ = Now();
}

void TlsRefresh::Reload() {
  if (paths_.empty()) return;
  try {
    reload_();
    base::LogInfo("TLS files read again; new connections use them");
  } catch (const base::Error& e) {
    base::LogError("the TLS files stay as they were: {}", e.what());
  }
}

void TlsRefresh::Tick() {
  const auto now = std::chrono::steady_clock::now();
  if (!watch_ || paths_.empty() || now < next_) return;
  next_ = now + std::chrono::seconds(1);
  const Times times = Now();
  // A change is taken once it has settled: the certificate and its key are written one after the other.
  if (times == seen_ && changed_) Reload();
  changed_ = times != seen_;
  seen_ = times;
}

TlsRefresh::Times TlsRefresh::Now() const {
  Times times;
  std::error_code missing;
  for (const std::string& path : paths_) times.push_back(std::filesystem::last_write_time(path, missing));
  return times;
}

}  // namespace peng::server
