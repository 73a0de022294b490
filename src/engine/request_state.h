// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "engine/logit_rules.h"
#include "sched/types.h"

namespace peng::engine {

// What an executor keeps of a request between its steps.
struct RequestState {
  explicit RequestState(std::shared_ptr<const sched::RequestSpec> s) : spec(std::move(s)), history(*spec) {}

  std::shared_ptr<const sched::RequestSpec> spec;
  TokenHistory history;
  int32_t last_sample = 0;
};
using RequestStates = std::unordered_map<sched::RequestId, RequestState>;

}  // namespace peng::engine
