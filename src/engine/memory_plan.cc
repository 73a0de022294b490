// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace peng::engine {
namespace {

// A context shorter than this is not worth starting with.
constexpr int64_t kShortestUsefulContext = 512;

[[noreturn]] void ThrowDoesNotFit(std::string_view what, int64_t have, int64_t need, const std::string& action) {
  throw base::Error(base::ErrorKind::kRuntime, "memory",
                    fmt::format("{} not fit: have {}, need {}, missing {}", what, FormatBytes(have), FormatBytes(need),
                                FormatBytes(need - have)),
                    action);
}

int64_t BlocksForContext(const MemoryDemand& d) { return (d.max_model_len + d.block_size - 1) / d.block_size; }

void CheckThatWeightsFit(const MemoryDemand& d) {
  const int64_t need = d.weights + d.scratch + 2 * d.kv_block;
  if (need <= d.free) return;
  // Scratch grows with the rows of a step; weights do not shrink.
  const bool scratch_is_the_trouble = d.weights + d.scratch / 4 + 2 * d.kv_block <= d.free;
  ThrowDoesNotFit(fmt::format("weights ({}) and scratch ({}) do", FormatBytes(d.weights), FormatBytes(d.scratch)),
                  d.free, need,
                  scratch_is_the_trouble ? "lower --max-num-batched-tokens to a quarter"
                                         : "free memory, or use a smaller or more strongly quantized model");
}

int64_t KvBudget(const MemoryDemand& d, int64_t left) {
  if (!d.kv_cache) return left / 2;
  if (*d.kv_cache > left) {
    ThrowDoesNotFit("the KV cache asked for does", left, *d.kv_cache,
                    fmt::format("use --kv-cache-memory-bytes {}", left));
  }
  return *d.kv_cache;
}

[[noreturn]] void ThrowContextDoesNotFit(const MemoryDemand& d, int64_t left, int64_t budget, int64_t fitting_len) {
  const int64_t need = (1 + BlocksForContext(d)) * d.kv_block;
  std::string action;
  if (fitting_len > 0) action = fmt::format("use --max-model-len {}", fitting_len);
  if (need <= left) action += fmt::format("{} --kv-cache-memory-bytes {}", action.empty() ? "use" : " or", need);
  if (action.empty()) action = "free memory, or use a smaller model";
  ThrowDoesNotFit(fmt::format("the KV cache of one context of {} tokens does", d.max_model_len), budget, need, action);
}

std::vector<std::string> Describe(const MemoryDemand& d, const MemoryPlan& plan) {
  std::vector<std::string> lines = {
      fmt::format("memory free   {:>10}", FormatBytes(d.free)),
      fmt::format("  weights     {:>10}", FormatBytes(d.weights)),
      fmt::format("  scratch     {:>10}", FormatBytes(d.scratch)),
      fmt::format("  KV cache    {:>10}  {} tokens in {} blocks of {}, {:.1f} contexts of {}",
                  FormatBytes(plan.kv_bytes), plan.kv_tokens, plan.num_blocks - 1, d.block_size,
                  static_cast<double>(plan.kv_tokens) / static_cast<double>(plan.max_model_len), plan.max_model_len),
      fmt::format("  stays free  {:>10}", FormatBytes(d.free - d.weights - d.scratch - plan.kv_bytes))};
  if (plan.max_model_len < d.max_model_len) {
    lines.push_back(fmt::format("the context is cut from {} to {} tokens to fit; more with --kv-cache-memory-bytes",
                                d.max_model_len, plan.max_model_len));
  }
  return lines;
}

}  // namespace

MemoryPlan PlanMemory(const MemoryDemand& d) {
  PENG_CHECK(d.kv_block > 0 && d.block_size > 0 && d.max_num_seqs > 0 && d.max_model_len > 0);
  CheckThatWeightsFit(d);
  const int64_t left = d.free - d.weights - d.scratch;
  const int64_t budget = KvBudget(d, left);
  // More than INT32_MAX blocks have no id.
  const int64_t useful = 1 + std::min<int64_t>(BlocksForContext(d) * d.max_num_seqs, INT32_MAX - 1);
  const int64_t blocks = std::min(budget / d.kv_block, useful);

  MemoryPlan plan;
  plan.max_model_len = d.max_model_len;
  if (blocks < 1 + BlocksForContext(d)) {
    const int64_t fitting_len = std::max<int64_t>(blocks - 1, 0) * d.block_size;
    if (d.max_model_len_is_fixed || fitting_len < std::min(kShortestUsefulContext, d.max_model_len)) {
      ThrowContextDoesNotFit(d, left, budget, fitting_len);
    }
    plan.max_model_len = fitting_len;
  }
  plan.num_blocks = static_cast<int>(blocks);
  plan.kv_bytes = blocks * d.kv_block;
  plan.kv_tokens = (blocks - 1) * d.block_size;
  plan.lines = Describe(d, plan);
  return plan;
}

std::string FormatBytes(int64_t bytes) {
  constexpr double kKiB = 1024;
  const double b = static_cast<double>(bytes);
  if (b >= kKiB * kKiB * kKiB) return fmt::format("{:.1f} GiB", b / (kKiB * kKiB * kKiB));
  if (b >= kKiB * kKiB) return fmt::format("{:.0f} MiB", b / (kKiB * kKiB));
  if (b >= kKiB) return fmt::format("{:.0f} KiB", b / kKiB);
  return fmt::format("{} B", bytes);
}

}  // namespace peng::engine
