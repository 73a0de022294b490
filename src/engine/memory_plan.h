// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace peng::engine {

// Bytes unless said otherwise; all of one device (or of the host).
struct MemoryDemand {
  int64_t free = 0;       // what peng may use, before anything of the below is allocated
  int64_t available = 0;  // what `free` is a share of; 0 = not told
  int64_t weights = 0;
  int64_t mapped = 0;  // weights that stay in their file; the system reads them when needed and may drop them
  int64_t other = 0;   // vocabulary, code, connections
  // Of steps of so many tokens and sequences.
  std::function<int64_t(int max_num_batched_tokens, int max_num_seqs)> scratch;
  int64_t kv_block = 0;
  int block_size = 0;                   // tokens
  int max_num_seqs = 0;                 // sequences
  int max_num_batched_tokens = 0;       // tokens
  int64_t max_model_len = 0;            // tokens
  bool max_model_len_is_fixed = false;  // the user asked for it, so it is not lowered to what fits
  std::optional<int64_t> kv_cache;      // what the user asked for
};

struct MemoryPlan {
  int num_blocks = 0;  // of the KV store, with the null block
  int64_t scratch_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t kv_tokens = 0;           // that the cache holds
  int64_t max_model_len = 0;       // tokens; lowered if the whole context does not fit and the user did not ask for it
  std::vector<std::string> lines;  // for people, one per item
};

// Divides the memory before anything is allocated: KV blocks get what was asked for, or half of what weights and
// scratch leave free, and never more than max_num_seqs whole contexts can use. Throws base::Error (kUsage) for a KV
// cache of the user's that holds no context, with the least that does; otherwise (kRuntime) with what there is, what is
// needed, what is missing and settings with which the same demand is accepted, even if a little less memory is free
// then.
MemoryPlan PlanMemory(const MemoryDemand& demand);

// "1.5 GiB", "12 MiB", "300 B".
std::string FormatBytes(int64_t bytes);

}  // namespace peng::engine
