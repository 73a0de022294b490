// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>

#include "base/error.h"

namespace peng::engine {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

MemoryDemand Demand() {
  MemoryDemand d;
  d.free = 16 * kGiB;
  d.weights = 4 * kGiB;
  // 256 KiB a token and 512 KiB a sequence: 512 MiB and 32 MiB.
  d.scratch = [](int tokens, int seqs) {
    return (int64_t{tokens} * 256 + int64_t{std::min(tokens, seqs)} * 512) << 10;
  };
  d.max_num_batched_tokens = 2048;
  d.other = 64 * kMiB;
  d.kv_block = 2 * kMiB;
  d.block_size = 32;
  d.max_num_seqs = 64;
  d.max_model_len = 8192;
  return d;
}

std::string ErrorOf(const MemoryDemand& d) {
  try {
    PlanMemory(d);
  } catch (const base::Error& e) {
    const bool by_flag = std::string_view(e.what()).starts_with("--kv-cache-memory-bytes: ");
    EXPECT_EQ(e.kind(), by_flag ? base::ErrorKind::kUsage : base::ErrorKind::kRuntime);
    return e.what();
  }
  return "";
}

// Whether `d` is accepted with the settings that the error of refusing it advises, and 1 % less memory.
bool AdviceWorks(MemoryDemand d, const std::string& error) {
  const auto advice = [&](const std::string& flag) -> int64_t {
    std::smatch match;
    if (!std::regex_search(error, match, std::regex("--" + flag + " ([0-9]+)(M?)"))) return 0;
    return std::stoll(match[1]) * (match[2].length() > 0 ? kMiB : 1);
  };
  if (const int64_t n = advice("max-num-batched-tokens")) d.max_num_batched_tokens = static_cast<int>(n);
  if (const int64_t n = advice("max-num-seqs")) d.max_num_seqs = static_cast<int>(n);
  if (const int64_t n = advice("kv-cache-memory-bytes")) d.kv_cache = n;
  if (const int64_t n = advice("max-model-len")) {
    d.max_model_len = n;
    d.max_model_len_is_fixed = true;
  }
  d.free -= d.free / 100;
  return ErrorOf(d).empty();
}

int64_t Scratch(const MemoryDemand& d) { return d.scratch(d.max_num_batched_tokens, d.max_num_seqs); }

TEST(MemoryPlan, TakesHalfOfWhatIsLeft) {
  const MemoryDemand d = Demand();
  const MemoryPlan plan = PlanMemory(d);
  const int64_t left = d.free - d.weights - Scratch(d) - d.other;
  EXPECT_EQ(plan.scratch_bytes, Scratch(d));
  EXPECT_LE(plan.kv_bytes, left / 2);
  EXPECT_GT(plan.kv_bytes, left / 2 - d.kv_block);
  EXPECT_EQ(plan.kv_tokens, int64_t{plan.num_blocks - 1} * 32);
  EXPECT_EQ(plan.max_model_len, 8192);
  EXPECT_EQ(plan.lines.size(), 6u);
}

TEST(MemoryPlan, NamesWeightsThatStayInTheirFile) {
  MemoryDemand d = Demand();
  const int blocks = PlanMemory(d).num_blocks;
  d.mapped = 300 * kMiB;
  const MemoryPlan plan = PlanMemory(d);
  EXPECT_EQ(plan.num_blocks, blocks);
  EXPECT_NE(plan.lines[2].find("300 MiB"), std::string::npos) << plan.lines[2];
}

TEST(MemoryPlan, TakesNoMoreThanTheRequestsCanUse) {
  MemoryDemand d = Demand();
  d.max_num_seqs = 2;
  EXPECT_EQ(PlanMemory(d).num_blocks, 1 + 2 * 256);
  d.kv_cache = 10 * kGiB;
  EXPECT_EQ(PlanMemory(d).num_blocks, 1 + 2 * 256);
}

TEST(MemoryPlan, TellsOfWhatTheMemoryIsAShare) {
  MemoryDemand d = Demand();
  EXPECT_EQ(PlanMemory(d).lines[0], "may use         16.0 GiB");
  d.available = 20 * kGiB;
  EXPECT_EQ(PlanMemory(d).lines[0], "may use         16.0 GiB  80 % of 20.0 GiB available");
}

TEST(MemoryPlan, NamesTheFlagOfAKvCacheThatHoldsNoContext) {
  MemoryDemand d = Demand();
  d.kv_cache = 1000;
  const std::string least = "use --kv-cache-memory-bytes 34M or more";
  EXPECT_EQ(
      ErrorOf(d),
      "--kv-cache-memory-bytes: 1000 B do not hold a context of 512 tokens, which takes 34 MiB in blocks of 32; " +
          least);
  d.kv_cache = 34 * kMiB;
  EXPECT_EQ(PlanMemory(d).max_model_len, 512);
  d.max_model_len_is_fixed = true;
  EXPECT_EQ(
      ErrorOf(d),
      "--kv-cache-memory-bytes: 34 MiB do not hold a context of 8192 tokens, which takes 514 MiB in blocks of 32; "
      "use --kv-cache-memory-bytes 514M or more, or --max-model-len 512");
  d.max_model_len_is_fixed = false;
  d.block_size = 1024;
  d.kv_block = 64 * kMiB;
  EXPECT_EQ(
      ErrorOf(d),
      "--kv-cache-memory-bytes: 34 MiB do not hold a context of 512 tokens, which takes 128 MiB in blocks of 1024; "
      "use --kv-cache-memory-bytes 128M or more, or a smaller --block-size");
}

TEST(MemoryPlan, FollowsTheUser) {
  MemoryDemand d = Demand();
  d.kv_cache = 11 * kGiB;
  EXPECT_EQ(PlanMemory(d).num_blocks, 11 * 512);
}

TEST(MemoryPlan, CutsAContextNobodyAskedFor) {
  MemoryDemand d = Demand();
  d.max_model_len = 163840;
  const MemoryPlan plan = PlanMemory(d);
  EXPECT_EQ(plan.max_model_len, plan.kv_tokens);
  EXPECT_LT(plan.max_model_len, d.max_model_len);
  EXPECT_EQ(plan.lines.size(), 7u);
}

TEST(MemoryPlan, KeepsAContextThatALargerCacheHolds) {
  MemoryDemand d = Demand();
  d.max_model_len = 163840;
  d.max_model_len_is_fixed = true;
  const std::string error = ErrorOf(d);
  EXPECT_NE(error.find("missing"), std::string::npos) << error;
  EXPECT_NE(error.find("--kv-cache-memory-bytes"), std::string::npos) << error;
  EXPECT_EQ(error.find("--max-model-len"), std::string::npos) << error;
  EXPECT_TRUE(AdviceWorks(d, error)) << error;
}

TEST(MemoryPlan, ShortensAContextThatDoesNotFit) {
  MemoryDemand d = Demand();
  d.max_model_len = 1000000;
  d.max_model_len_is_fixed = true;
  const std::string error = ErrorOf(d);
  EXPECT_NE(error.find("--max-model-len"), std::string::npos) << error;
  EXPECT_TRUE(AdviceWorks(d, error)) << error;
}

TEST(MemoryPlan, RefusesAUselesslyShortContext) {
  MemoryDemand d = Demand();
  d.free = d.weights + Scratch(d) + d.other + 20 * kMiB;  // 5 blocks, one of them the null block
  const std::string error = ErrorOf(d);
  EXPECT_NE(error.find("--max-num-batched-tokens"), std::string::npos) << "steps can be smaller: " << error;
  EXPECT_TRUE(AdviceWorks(d, error)) << error;
  d.max_model_len = 100;
  EXPECT_EQ(PlanMemory(d).max_model_len, 100);
}

TEST(MemoryPlan, RefusesAKvCacheThatDoesNotFit) {
  MemoryDemand d = Demand();
  d.kv_cache = 12 * kGiB;
  const std::string error = ErrorOf(d);
  EXPECT_NE(error.find("KV cache asked for"), std::string::npos) << error;
  EXPECT_TRUE(AdviceWorks(d, error)) << error;
}

TEST(MemoryPlan, RefusesWeightsThatDoNotFit) {
  MemoryDemand d = Demand();
  d.free = 3 * kGiB;
  const std::string error = ErrorOf(d);
  EXPECT_NE(error.find("have 3.0 GiB, need 4.6 GiB, missing 1.6 GiB"), std::string::npos) << error;
  EXPECT_NE(error.find("smaller"), std::string::npos);
}

TEST(MemoryPlan, AdvisesSmallerStepsForScratch) {
  MemoryDemand d = Demand();
  d.free = 4 * kGiB + 512 * kMiB;
  const std::string error = ErrorOf(d);
  EXPECT_NE(error.find("--max-num-batched-tokens"), std::string::npos) << error;
  EXPECT_TRUE(AdviceWorks(d, error)) << error;
}

// Whatever is missing, the advice works or there is none.
TEST(MemoryPlan, AdviceWorksForEveryAmountOfMemory) {
  int advised = 0;
  for (int64_t free = 4 * kGiB; free < 5 * kGiB; free += 7 * kMiB) {
    for (const int64_t len : {64, 8192, 163840}) {
      for (const bool fixed : {false, true}) {
        MemoryDemand d = Demand();
        d.free = free;
        d.max_model_len = len;
        d.max_model_len_is_fixed = fixed;
        if (free % 2 == 0) d.kv_cache = 300 * kMiB;
        const std::string error = ErrorOf(d);
        if (error.find("--") == std::string::npos) continue;
        ++advised;
        EXPECT_TRUE(AdviceWorks(d, error)) << error;
      }
    }
  }
  EXPECT_GT(advised, 100);
}

TEST(MemoryPlan, WritesBytesForPeople) {
  EXPECT_EQ(FormatBytes(300), "300 B");
  EXPECT_EQ(FormatBytes(12 * kMiB), "12 MiB");
  EXPECT_EQ(FormatBytes(kGiB + kGiB / 2), "1.5 GiB");
}

}  // namespace
}  // namespace peng::engine
