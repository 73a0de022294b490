// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/forward_batch.h"
#include "engine/request_state.h"
#include "sched/types.h"

namespace peng::engine {

// What the logits of one row are for.
struct LogitUse {
  sched::RequestId request = 0;
  bool sample = false;
  int32_t sample_index = 0;  // sample: index of the token among the generated ones
  int32_t prompt_token = 0;  // otherwise: the prompt's next token, whose log-probability is wanted
};

struct BuiltBatch {
  backend::ForwardBatch batch;
  std::vector<LogitUse> uses;  // one per batch.logit_rows
};

// The rows of a step as a model takes them. `states` has every request of the plan; kLastSample is resolved from it.
BuiltBatch BuildBatch(const sched::StepPlan& plan, const RequestStates& states, int block_size);

}  // namespace peng::engine
