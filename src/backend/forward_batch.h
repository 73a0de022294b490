// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace peng::backend {

// A row's phase decides its arithmetic, together with the model, the ISA and the absolute position; nothing else does.
// Rows of a prompt are kPrompt; rows whose token was sampled (speculative verify rows too) are kGenerated.
enum class Phase : uint8_t { kPrompt, kGenerated };

// The rows of one sequence in a step: `num_rows` consecutive rows of one phase, at consecutive positions.
struct BatchSequence {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t first_position = 0;  // absolute position of the first row
  Phase phase = Phase::kPrompt;
  std::vector<int32_t> block_table;  // block ids covering positions [0, first_position + num_rows)
};

// Host-side description of one step. Rows are sorted prompt-first, so a Linear makes one pass over its weight for both
// phases. Backends copy what they need; lengths and block tables stay readable on the host.
struct ForwardBatch {
  std::vector<int32_t> token_ids;        // [rows]
  std::vector<int32_t> positions;        // [rows]
  std::vector<int64_t> slots;            // [rows] block id * block size + offset: where the row's K and V go
  std::vector<int32_t> adapter_ids;      // [rows] 0 = none
  std::vector<BatchSequence> sequences;  // prompt sequences first
  int32_t num_prompt_rows = 0;
  std::vector<int32_t> logit_rows;  // rows whose logits are wanted, ascending

  int32_t num_rows() const { return static_cast<int32_t>(token_ids.size()); }
};

}  // namespace peng::backend
