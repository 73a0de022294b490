// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/options.h"

namespace peng::server {

// `peng serve`: listens, loads the model, serves until SIGTERM or SIGINT, drains. Returns the exit code. Throws
// base::Error if it cannot listen or load. Call it before the process has other threads: it takes over those signals.
int RunServer(base::ServeOptions options);

}  // namespace peng::server
