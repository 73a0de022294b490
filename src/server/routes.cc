// SPDX-License-Identifier: Apache-2.0
#include "server/routes.h"

namespace peng::server {

std::span<const Route> AllRoutes() {
  static constexpr Route kRoutes[] = {
      {"POST", "/v1/chat/completions", ChatCompletions},
      {"POST", "/v1/completions", Completions},
      {"GET", "/v1/models", ListModels},
      {"GET", "/v1/models/*", ShowModel},
      {"POST", "/tokenize", Tokenize},
      {"POST", "/detokenize", Detokenize},
      {"GET", "/version", Version},
      {"GET", "/metrics", ShowMetrics, Access::kKey, Traffic::kProbe},
      {"GET", "/health", Health, Access::kOpen, Traffic::kProbe},
      {"GET", "/ready", Health, Access::kOpen, Traffic::kProbe},
      {"GET", "/ping", Ping, Access::kOpen, Traffic::kProbe},
      {"POST", "/ping", Ping, Access::kOpen, Traffic::kProbe},
      {"GET", "/", IndexPage, Access::kOpen, Traffic::kPage},
      {"POST", "/reset_prefix_cache", ResetPrefixCache, Access::kAdmin},
      {"GET", "/log_level", ShowLogLevel, Access::kAdmin},
      {"POST", "/log_level", ChangeLogLevel, Access::kAdmin},
      {"GET", "/server_info", ServerInfo, Access::kAdmin},
  };
  return kRoutes;
}

}  // namespace peng::server
