// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cache/block_hash.h"
#include "cache/block_table.h"
#include "sched/types.h"

namespace peng::sched {

// A live request inside the scheduler. Positions [0, num_committed) are computed and known to be; up to num_computed
// they are planned in steps in flight; the request's known length is its tokens and the samples in flight.
struct Request {
  Request(std::shared_ptr<const RequestSpec> s, uint64_t arrival, cache::BlockPool& pool)
      : spec(std::move(s)), serial(arrival), tokens(spec->prompt), blocks(pool) {}

  int32_t num_prompt() const { return static_cast<int32_t>(spec->prompt.size()); }
  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_generated() const { return num_tokens() - num_prompt(); }
  int32_t known_length() const { return num_tokens() + num_pending; }
  bool waits_for_samples() const { return spec->constraint != nullptr || spec->sampling.NeedsHostState(); }
  bool prefilling() const { return num_computed < prefill_end; }
  bool wants_prompt_logprobs() const {
    return spec->sampling.num_prompt_logprobs >= 0 && num_prompt_logprobs < num_prompt() - 1;
  }
  // Computes the digests of the first `num_blocks` full blocks of `tokens`.
  void HashBlocks(int num_blocks, int block_size, const std::vector<uint8_t>& seed);

  std::shared_ptr<const RequestSpec> spec;
  uint64_t serial;              // order of arrival
  std::vector<int32_t> tokens;  // the prompt, then the committed generated tokens
  int32_t num_computed = 0;
  int32_t num_committed = 0;
  int32_t num_pending = 0;  // samples in flight
  int32_t prefill_end = 0;  // tokens that were known at the (last) admission: up to here it computes, then it generates
  cache::BlockTable blocks;
  std::vector<cache::BlockHash> hashes;
  int32_t num_published = 0;  // leading blocks that were offered to the prefix cache
  int32_t num_cached = -1;    // prompt tokens found in the prefix cache at the first admission; -1 = not admitted yet
  int32_t num_prompt_logprobs = 0;  // already delivered
  uint32_t incarnation = 0;         // preemptions so far
  uint64_t dropped_through = 0;     // rows of steps up to this one were planned on wrong ids and are ignored
  bool started = false;             // the executor has state of it
  bool finished = false;
};

}  // namespace peng::sched
