// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

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
  d.scratch = 512 * kMiB;
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
    EXPECT_EQ(e.kind(), base::ErrorKind::kRuntime);
    return e.what();
  }
  return "";
}

// The number after `flag` in an error's advice; 0 if the flag is not there.
int64_t Advice(const std::string& error, const std::string& flag) {
  std::smatch match;
  return std::regex_search(error, match, std::regex(flag + " ([0-9]+)")) ? std::stoll(match[1]) : 0;
}

TEST(MemoryPlan, TakesHalfOfWhatIsFreeAfterWeightsAndScratch) {
  const MemoryDemand d = Demand();
  const MemoryPlan plan = PlanMemory(d);
  const int64_t left = d.free - d.weights - d.scratch;
  EXPECT_LE(plan.kv_bytes, left / 2);
  EXPECT_GT(plan.kv_bytes, left / 2 - d.kv_block);
  EXPECT_EQ(plan.kv_tokens, int64_t{plan.num_blocks - 1} * 32);
  EXPECT_EQ(plan.max_model_len, 8192);
  EXPECT_EQ(plan.lines.size(), 5u);
}

TEST(MemoryPlan, TakesNoMoreThanTheRequestsCanUse) {
  MemoryDemand d = Demand();
  d.max_num_seqs = 2;
  EXPECT_EQ(PlanMemory(d).num_blocks, 1 + 2 * 256);
  d.kv_cache = 10 * kGiB;
  EXPECT_EQ(PlanMemory(d).num_blocks, 1 + 2 * 256);
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
  EXPECT_EQ(plan.lines.size(), 6u);
}

TEST(MemoryPlan, RefusesAContextThatDoesNotFitWithAdviceThatWorks) {
  MemoryDemand d = Demand();
  d.max_model_len = 163840;
  d.max_model_len_is_fixed = true;
  const std::string error = ErrorOf(d);
  EXPECT_NE(error.find("missing"), std::string::npos) << error;
  EXPECT_EQ(Advice(error, "--kv-cache-memory-bytes"), int64_t{(163840 / 32 + 1)} * 2 * kMiB);
  MemoryDemand shorter = d;
  shorter.max_model_len = Advice(error, "--max-model-len");
  EXPECT_EQ(PlanMemory(shorter).max_model_len, shorter.max_model_len);
  MemoryDemand larger = d;
  larger.kv_cache = Advice(error, "--kv-cache-memory-bytes");
  EXPECT_EQ(PlanMemory(larger).max_model_len, 163840);
}

TEST(MemoryPlan, AdvisesOnlyWhatFits) {
  MemoryDemand d = Demand();
  d.max_model_len = 1000000;
  d.max_model_len_is_fixed = true;
  const std::string error = ErrorOf(d);
  EXPECT_EQ(Advice(error, "--kv-cache-memory-bytes"), 0);
  EXPECT_GT(Advice(error, "--max-model-len"), 0);
}

TEST(MemoryPlan, RefusesAUselesslyShortContext) {
  MemoryDemand d = Demand();
  d.free = d.weights + d.scratch + 20 * kMiB;  // 5 blocks, one of them the null block
  const std::string error = ErrorOf(d);
  EXPECT_EQ(Advice(error, "--max-model-len"), 4 * 32) << error;
  d.max_model_len = 100;
  EXPECT_EQ(PlanMemory(d).max_model_len, 100);
}

TEST(MemoryPlan, RefusesAKvCacheThatDoesNotFitWithAdviceThatWorks) {
  MemoryDemand d = Demand();
  d.kv_cache = 12 * kGiB;
  const std::string error = ErrorOf(d);
  d.kv_cache = Advice(error, "--kv-cache-memory-bytes");
  EXPECT_GT(PlanMemory(d).num_blocks, 5000);
}

TEST(MemoryPlan, RefusesWeightsThatDoNotFit) {
  MemoryDemand d = Demand();
  d.free = 3 * kGiB;
  const std::string error = ErrorOf(d);
  EXPECT_NE(error.find("have 3.0 GiB, need 4.5 GiB, missing 1.5 GiB"), std::string::npos) << error;
  EXPECT_NE(error.find("smaller"), std::string::npos);
  d = Demand();
  d.free = 5 * kGiB;
  d.scratch = 2 * kGiB;
  EXPECT_NE(ErrorOf(d).find("--max-num-batched-tokens"), std::string::npos);
}

TEST(MemoryPlan, WritesBytesForPeople) {
  EXPECT_EQ(FormatBytes(300), "300 B");
  EXPECT_EQ(FormatBytes(12 * kMiB), "12 MiB");
  EXPECT_EQ(FormatBytes(kGiB + kGiB / 2), "1.5 GiB");
}

}  // namespace
}  // namespace peng::engine
