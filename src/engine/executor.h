// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sched/types.h"

namespace peng::engine {

using Ticket = uint64_t;

// Runs steps in the order they are launched. Launch returns at once; Collect waits for the oldest launched step. At
// most two steps are outstanding: one computing, one queued behind it. Collect throws base::Error if the step failed;
// the executor stays usable.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Ticket Launch(const sched::StepPlan& plan) = 0;
  virtual std::vector<sched::SampledRow> Collect(Ticket ticket) = 0;
};

}  // namespace peng::engine
