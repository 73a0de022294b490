// SPDX-License-Identifier: Apache-2.0
#include "sched/types.h"

namespace peng::sched {

bool SamplingParams::NeedsHostState() const {
  return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1 || !bad_words.empty();
}

int32_t StepPlan::num_rows() const {
  int32_t rows = 0;
  for (const StepSequence& sequence : sequences) rows += sequence.num_rows;
  return rows;
}

}  // namespace peng::sched
