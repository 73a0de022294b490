// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"

namespace peng::engine {
namespace {

// A context shorter than this is not worth starting with.
constexpr int64_t kShortestUsefulContext = 512;
constexpr int64_t kMiB = int64_t{1} << 20;

// What keeps a demand from being met.
struct Shortage {
  std::string what;  // "... not fit"
  int64_t have = 0;
  int64_t need = 0;
};

int64_t BlocksForContext(const MemoryDemand& d) { return (d.max_model_len + d.block_size - 1) / d.block_size; }

std::string MayUse(const MemoryDemand& d) {
  std::string line = fmt::format("may use       {:>10}", FormatBytes(d.free));
  if (d.available <= 0) return line;
  return line + fmt::format("  {:.0f} % of {} available",
                            100.0 * static_cast<double>(d.free) / static_cast<double>(d.available),
                            FormatBytes(d.available));
}

std::vector<std::string> Describe(const MemoryDemand& d, const MemoryPlan& plan) {
  std::vector<std::string> lines = {
      MayUse(d),
      fmt::format("  weights     {:>10}", FormatBytes(d.weights)),
      fmt::format("  scratch     {:>10}  steps of {} tokens, {} sequences", FormatBytes(plan.scratch_bytes),
                  d.max_num_batched_tokens, d.max_num_seqs),
      fmt::format("  other       {:>10}  at most: vocabulary, code, connections", FormatBytes(d.other)),
      fmt::format("  KV cache    {:>10}  {} tokens in {} blocks of {}, {:.1f} contexts of {}; taken as it fills",
                  FormatBytes(plan.kv_bytes), plan.kv_tokens, plan.num_blocks - 1, d.block_size,
                  static_cast<double>(plan.kv_tokens) / static_cast<double>(plan.max_model_len), plan.max_model_len),
      fmt::format("  stays free  {:>10}",
                  FormatBytes(d.free - d.weights - plan.scratch_bytes - d.other - plan.kv_bytes))};
  if (d.mapped > 0) {
    lines.insert(lines.begin() + 2, fmt::format("  mapped      {:>10}  weights that stay in their file, not counted",
                                                FormatBytes(d.mapped)));
  }
  if (plan.max_model_len < d.max_model_len) {
    lines.push_back(fmt::format("the context is cut from {} to {} tokens to fit; more with --kv-cache-memory-bytes",
                                d.max_model_len, plan.max_model_len));
  }
  return lines;
}

std::variant<MemoryPlan, Shortage> Divide(const MemoryDemand& d) {
  MemoryPlan plan;
  plan.scratch_bytes = d.scratch(d.max_num_batched_tokens, d.max_num_seqs);
  plan.max_model_len = d.max_model_len;
  const int64_t fixed = d.weights + plan.scratch_bytes + d.other;
  if (fixed + 2 * d.kv_block > d.free) {
    return Shortage{fmt::format("weights ({}), scratch ({}) and the rest ({}) do", FormatBytes(d.weights),
                                FormatBytes(plan.scratch_bytes), FormatBytes(d.other)),
                    d.free, fixed + 2 * d.kv_block};
  }
  const int64_t left = d.free - fixed;
  if (d.kv_cache.value_or(0) > left) return Shortage{"the KV cache asked for does", left, *d.kv_cache};
  const int64_t budget = d.kv_cache.value_or(left / 2);
  // More than INT32_MAX blocks have no id.
  const int64_t useful = 1 + std::min<int64_t>(BlocksForContext(d) * d.max_num_seqs, INT32_MAX - 1);
  const int64_t blocks = std::min(budget / d.kv_block, useful);
  if (blocks < 1 + BlocksForContext(d)) {
    const int64_t fitting_len = std::max<int64_t>(blocks - 1, 0) * d.block_size;
    if (d.max_model_len_is_fixed || fitting_len < std::min(kShortestUsefulContext, d.max_model_len)) {
      return Shortage{fmt::format("the KV cache of one context of {} tokens does", d.max_model_len), budget,
                      (1 + BlocksForContext(d)) * d.kv_block};
    }
    plan.max_model_len = fitting_len;
  }
  plan.num_blocks = static_cast<int>(blocks);
  plan.kv_bytes = blocks * d.kv_block;
  plan.kv_tokens = (blocks - 1) * d.block_size;
  plan.lines = Describe(d, plan);
  return plan;
}

// A demand that asks for less, and the settings that do so.
struct Proposal {
  MemoryDemand demand;
  std::string settings;
};

bool Fits(const MemoryDemand& d) { return std::holds_alternative<MemoryPlan>(Divide(d)); }

// Smaller steps: fewer tokens first, then fewer sequences as well, whose logits are scratch too.
std::vector<Proposal> SmallerSteps(const MemoryDemand& d) {
  constexpr int kFewTokens = 64;
  std::vector<Proposal> proposals = {{d, ""}};
  MemoryDemand smaller = d;
  while (smaller.max_num_batched_tokens >= 2 * kFewTokens) {
    smaller.max_num_batched_tokens /= 2;
    proposals.push_back({smaller, fmt::format(" --max-num-batched-tokens {}", smaller.max_num_batched_tokens)});
  }
  const std::string tokens = proposals.back().settings;
  while (smaller.max_num_seqs > 1) {
    smaller.max_num_seqs /= 2;
    proposals.push_back({smaller, fmt::format("{} --max-num-seqs {}", tokens, smaller.max_num_seqs)});
  }
  return proposals;
}

// The KV cache that is left, with the context asked for if it holds one, or with the longest that does.
std::optional<Proposal> FittingKvCache(Proposal p) {
  MemoryDemand& d = p.demand;
  const int64_t left = d.free - d.weights - d.other - d.scratch(d.max_num_batched_tokens, d.max_num_seqs);
  // Whole MiB are easier to write, and a budget of the user's is only named where there was one or it helps.
  const int64_t budget = left / kMiB * kMiB;
  if (Fits(d)) return p;
  if (budget < 2 * d.kv_block) return std::nullopt;
  d.kv_cache = d.kv_cache ? std::min(*d.kv_cache, budget) : budget;
  p.settings += fmt::format(" --kv-cache-memory-bytes {}M", *d.kv_cache / kMiB);
  if (Fits(d)) return p;
  d.max_model_len = (*d.kv_cache / kMiB * kMiB / d.kv_block - 1) * d.block_size;
  d.max_model_len_is_fixed = true;
  p.settings += fmt::format(" --max-model-len {}", d.max_model_len);
  if (d.max_model_len <= 0 || !Fits(d)) return std::nullopt;
  return p;
}

// Less may be free at the next start.
MemoryDemand WithLessFree(MemoryDemand d) {
  d.free -= d.free / 50 + 4 * kMiB;
  return d;
}

// A budget of the user's that holds no context, where memory for one is there.
void CheckKvCache(const MemoryDemand& d) {
  const int64_t tokens = d.max_model_len_is_fixed ? d.max_model_len : std::min(kShortestUsefulContext, d.max_model_len);
  const int64_t least = (1 + (tokens + d.block_size - 1) / d.block_size) * d.kv_block;
  const int64_t left = WithLessFree(d).free - d.weights - d.other - d.scratch(d.max_num_batched_tokens, d.max_num_seqs);
  if (!d.kv_cache || *d.kv_cache >= least || *d.kv_cache > left) return;
  std::string ways;
  const auto add = [&ways](const std::string& way) { ways += (ways.empty() ? "use " : ", or ") + way; };
  const int64_t least_mib = (least + kMiB - 1) / kMiB;
  if (least_mib * kMiB <= left) add(fmt::format("--kv-cache-memory-bytes {}M or more", least_mib));
  const int64_t fitting = (*d.kv_cache / d.kv_block - 1) * d.block_size;
  if (d.max_model_len_is_fixed && fitting > 0) add(fmt::format("--max-model-len {}", fitting));
  if (d.block_size > tokens) add("a smaller --block-size");
  if (ways.empty()) return;
  throw base::Error(base::ErrorKind::kUsage, "--kv-cache-memory-bytes",
                    fmt::format("{} do not hold a context of {} tokens, which takes {} in blocks of {}",
                                FormatBytes(*d.kv_cache), tokens, FormatBytes(least), d.block_size),
                    ways);
}

std::string Advice(const MemoryDemand& demand) {
  const MemoryDemand d = WithLessFree(demand);
  std::optional<Proposal> short_context;
  for (const Proposal& steps : SmallerSteps(d)) {
    const std::optional<Proposal> p = FittingKvCache(steps);
    if (!p) continue;
    // Smaller steps cost speed, a shorter context costs what the user can do: look on for one that keeps it.
    if (p->demand.max_model_len >= std::min(d.max_model_len, kShortestUsefulContext)) return "use" + p->settings;
    if (!short_context) short_context = p;
  }
  if (short_context) return "use" + short_context->settings;
  return "free memory, or use a smaller or more strongly quantized model";
}

}  // namespace

MemoryPlan PlanMemory(const MemoryDemand& d) {
  PENG_CHECK(d.kv_block > 0 && d.block_size > 0 && d.max_num_seqs > 0 && d.max_model_len > 0);
  CheckKvCache(d);
  auto result = Divide(d);
  if (auto* plan = std::get_if<MemoryPlan>(&result)) return std::move(*plan);
  const Shortage& s = std::get<Shortage>(result);
  throw base::Error(base::ErrorKind::kRuntime, "memory",
                    fmt::format("{} not fit: have {}, need {}, missing {}", s.what, FormatBytes(s.have),
                                FormatBytes(s.need), FormatBytes(s.need - s.have)),
                    Advice(d));
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
