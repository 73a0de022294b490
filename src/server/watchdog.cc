// SPDX-License-Identifier: Apache-2.0
#include "server/watchdog.h"

#include <systemd/sd-daemon.h>

#include <cstdint>

namespace peng::server {

Watchdog::Watchdog() {
  uint64_t microseconds = 0;
  if (sd_watchdog_enabled(0, &microseconds) > 0) interval_ = std::chrono::microseconds(microseconds / 3);
}

void Watchdog::Tick() {
  const auto now = std::chrono::steady_clock::now();
  if (interval_.count() == 0 || now < next_) return;
  next_ = now + interval_;
  sd_notify(0, "WATCHDOG=1");
}

}  // namespace peng::server
