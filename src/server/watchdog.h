// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace peng::server {

// Tells systemd that the process is alive, if the unit asks for it with WatchdogSec.
class Watchdog {
 public:
  Watchdog();
  // To be called more often than the watchdog's time.
  void Tick();

 private:
  std::chrono::microseconds interval_{0};  // 0 = not asked for
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace peng::server
