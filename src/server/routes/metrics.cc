// SPDX-License-Identifier: Apache-2.0
// GET /metrics
#include "server/routes.h"

namespace peng::server {

void ShowMetrics(const Call& call) {
  const auto llm = call.service.llm();
  call.reply->Send({.content_type = std::string(kMetricsContentType),
                    .body = call.service.metrics().Expose(llm ? llm->Stats() : engine::EngineStats())});
}

}  // namespace peng::server
