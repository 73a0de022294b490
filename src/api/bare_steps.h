// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "api/loaded_model.h"

namespace peng::api {

// Steps of a loaded model without an engine, for measurements: sequences that start together, each with its own blocks.
class BareSteps {
 public:
  // Room for `num_sequences` of `max_positions` each, and for `max_rows` rows and `max_logit_rows` logits in a step.
  BareSteps(LoadedModel& loaded, int num_sequences, int max_positions, int max_rows, int max_logit_rows);

  // Runs rows of the sequences that start at `first_sequence`: tokens[s] are the next ids of number s after it, at
  // positions that start at first_position. With `all_logits` logits of every row, otherwise of each sequence's last
  // one. Returns float32 [logit rows, vocab], valid until the next call.
  std::span<const float> Run(std::span<const std::vector<int32_t>> tokens, int first_position, backend::Phase phase,
                             bool all_logits, int first_sequence = 0);
  int64_t vocab_size() const { return loaded_.model->info().vocab_size; }

 private:
  LoadedModel& loaded_;
  int blocks_per_sequence_;
  std::unique_ptr<backend::KvStore> kv_;
  std::unique_ptr<backend::Arena> arena_;
  std::vector<float> logits_;
};

}  // namespace peng::api
