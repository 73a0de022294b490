// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace peng::server {

// Reads TLS files again when asked to, and with `watch` when they have changed.
class TlsRefresh {
 public:
  // `reload` throws base::Error, and keeps what it had, if the files cannot be used. Empty paths do not count; without
  // any, there is nothing to do.
  TlsRefresh(std::function<void()> reload, const std::vector<std::string>& paths, bool watch);

  // Logs what came of it.
  void Reload();
  // To be called a few times per second.
  void Tick();

 private:
  using Times = std::vector<std::filesystem::file_time_type>;
  Times Now() const;

  std::function<void()> reload_;
  std::vector<std::string> paths_;
  const bool watch_;
  Times seen_;
  bool changed_ = false;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace peng::server
