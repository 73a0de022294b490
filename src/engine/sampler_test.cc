// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <variant>

#include "base/json.h"
#include "engine/row_ops.h"

namespace peng::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

base::Json LoadCases() {
  std::ifstream file(PENG_SOURCE_DIR "/tests/data/sampling/cases.json");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto parsed = base::ParseJson(text);
  return std::get<base::Json>(std::move(parsed));
}

std::vector<float> Floats(const base::Json& list) {
  std::vector<float> out;
  for (const base::Json& v : list.as_array()) out.push_back(v.is_null() ? kNever : static_cast<float>(v.as_double()));
  return out;
}

std::vector<int32_t> Ids(const base::Json* list) {
  std::vector<int32_t> out;
  if (list == nullptr) return out;
  for (const base::Json& v : list->as_array()) out.push_back(static_cast<int32_t>(v.as_int()));
  return out;
}

struct Case {
  sched::RequestSpec spec;
  std::vector<int32_t> output;
};

Case MakeCase(const base::Json& params) {
  Case c;
  const auto number = [&](const char* key, double fallback) {
    const base::Json* v = params.Find(key);
    return v == nullptr ? fallback : v->as_double();
  };
  sched::SamplingParams& p = c.spec.sampling;
  p.temperature = number("temperature", 1);
  p.top_p = number("top_p", 1);
  p.top_k = static_cast<int32_t>(number("top_k", 0));
  p.min_p = number("min_p", 0);
  p.repetition_penalty = number("repetition_penalty", 1);
  p.frequency_penalty = number("frequency_penalty", 0);
  p.presence_penalty = number("presence_penalty", 0);
  c.spec.min_tokens = static_cast<int32_t>(number("min_tokens", 0));
  c.spec.stop_token_ids = Ids(params.Find("stop_token_ids"));
  c.spec.prompt = Ids(params.Find("prompt_ids"));
  c.output = Ids(params.Find("output_ids"));
  if (const base::Json* bias = params.Find("logit_bias")) {
    std::vector<std::pair<int32_t, float>> biases;
    for (const auto& [id, value] : bias->as_object()) {
      biases.emplace_back(std::stoi(id), static_cast<float>(value.as_double()));
    }
    p.logit_bias = std::move(biases);
  }
  return c;
}

TokenHistory History(const Case& c) {
  TokenHistory history(c.spec);
  for (const int32_t id : c.output) history.Append(id);
  return history;
}

TEST(Sampler, GoldenCases) {
  const base::Json golden = LoadCases();
  Sampler sampler;
  int checked = 0;
  for (const base::Json& entry : golden.Find("cases")->as_array()) {
    SCOPED_TRACE(entry.Find("id")->as_int());
    const std::vector<float> logits =
        Floats(*golden.Find("logits")->Find(entry.Find("logits")->as_string())->Find("logits"));
    Case c = MakeCase(*entry.Find("params"));
    const TokenHistory history = History(c);
    const int32_t index = static_cast<int32_t>(c.output.size());
    if (const base::Json* expected = entry.Find("logits_after_bias_and_penalties")) {
      std::vector<float> row = logits;
      std::vector<uint32_t> mask;
      ApplyLogitRules(c.spec, history, index, mask, row);
      const std::vector<float> want = Floats(*expected);
      for (size_t i = 0; i < row.size(); ++i) {
        if (want[i] == kNever) {
          EXPECT_EQ(row[i], kNever);
        } else {
          EXPECT_NEAR(row[i], want[i], 1e-5) << i;
        }
      }
    }
    if (const base::Json* kept = entry.Find("kept")) {
      const auto got = sampler.Distribution(logits, c.spec, history, index);
      const std::vector<int32_t> want_ids = Ids(kept);
      ASSERT_EQ(got.size(), want_ids.size());
      const base::Json* margin = entry.Find("top_p_boundary_margin");
      const bool same_set = entry.Find("ties_at_cut")->as_int() == 0 && !(margin && margin->as_double() < 1e-6);
      for (size_t i = 0; i < got.size(); ++i) {
        if (same_set) {
          EXPECT_EQ(got[i].first, want_ids[i]);
        }
        EXPECT_NEAR(got[i].second, entry.Find("probs")->as_array()[i].as_double(), 1e-6);
      }
    }
    c.spec.sampling.temperature = 0;
    EXPECT_EQ(sampler.Sample(logits, c.spec, history, index).id, entry.Find("greedy_token")->as_int());
    ++checked;
  }
  EXPECT_EQ(checked, 92);
}

TEST(Sampler, GoldenRawLogprobs) {
  const base::Json golden = LoadCases();
  Sampler sampler;
  for (const auto& [name, entry] : golden.Find("logits")->as_object()) {
    SCOPED_TRACE(name);
    const std::vector<float> logits = Floats(*entry.Find("logits")), want = Floats(*entry.Find("raw_logprobs"));
    for (size_t i = 0; i < logits.size(); ++i) {
      const float got = sampler.Logprobs(logits, static_cast<int32_t>(i), 0).sampled.logprob;
      if (want[i] == kNever) {
        EXPECT_EQ(got, kNever);
      } else {
        EXPECT_NEAR(got, want[i], 1e-4f + 1e-6f * std::abs(want[i]));
      }
    }
  }
}

// The definition, in double and with a full sort.
std::map<int32_t, double> Reference(const std::vector<float>& logits, const sched::SamplingParams& p) {
  std::vector<std::pair<double, int32_t>> y;
  for (size_t i = 0; i < logits.size(); ++i) {
    y.emplace_back(logits[i] / static_cast<float>(p.temperature), static_cast<int32_t>(i));
  }
  const double max = std::max_element(y.begin(), y.end())->first;
  if (p.min_p > 0) std::erase_if(y, [&](const auto& v) { return std::exp(v.first - max) < p.min_p; });
  std::sort(y.begin(), y.end());
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < y.size()) {
    const double bar = y[y.size() - p.top_k].first;
    std::erase_if(y, [&](const auto& v) { return v.first < bar; });
  }
  double sum = 0, below = 0;
  for (const auto& v : y) sum += std::exp(v.first - max);
  size_t first = 0;
  for (; first + 1 < y.size(); ++first) {
    below += std::exp(y[first].first - max) / sum;
    if (below > 1 - p.top_p || p.top_p >= 1) break;
  }
  std::map<int32_t, double> result;
  double kept = 0;
  for (size_t i = first; i < y.size(); ++i) kept += std::exp(y[i].first - max);
  for (size_t i = first; i < y.size(); ++i) result[y[i].second] = std::exp(y[i].first - max) / kept;
  return result;
}

TEST(Sampler, LargeVocabulariesEqualTheDefinition) {
  std::mt19937 rng(3);
  Sampler sampler;
  for (int round = 0; round < 60; ++round) {
    const size_t vocab = 1 + rng() % 20000;
    std::normal_distribution<float> normal(0, round % 3 == 0 ? 0.05f : 3.0f);
    std::vector<float> logits(vocab);
    for (float& x : logits) x = normal(rng);
    sched::RequestSpec spec;
    sched::SamplingParams& p = spec.sampling;
    p.temperature = 0.3 + static_cast<double>(rng() % 100) / 50;
    if (rng() % 2) p.top_k = static_cast<int32_t>(1 + rng() % 3000);
    if (rng() % 2) p.top_p = static_cast<double>(1 + rng() % 99) / 100;
    if (rng() % 2) p.min_p = static_cast<double>(rng() % 50) / 500;
    const auto want = Reference(logits, p);
    const auto got = sampler.Distribution(logits, spec, TokenHistory(spec), 0);
    // A boundary that falls on rounding may move the cut by a token of the smallest probability.
    ASSERT_NEAR(static_cast<double>(got.size()), static_cast<double>(want.size()), 1 + 0.0005 * want.size());
    double difference = 0;
    for (const auto& [id, probability] : got) {
      const auto it = want.find(id);
      difference += it == want.end() ? probability : std::abs(it->second - probability);
    }
    EXPECT_LT(difference, 1e-3) << "vocab " << vocab;
  }
}

TEST(Sampler, EqualLogitsAreCutWithoutASort) {
  Sampler sampler;
  sched::RequestSpec spec;
  spec.sampling.top_p = 0.25;
  const std::vector<float> logits(10000, 1.5f);
  const auto kept = sampler.Distribution(logits, spec, TokenHistory(spec), 0);
  ASSERT_EQ(kept.size(), 2500u);
  EXPECT_EQ(kept.front().first, 7500);
}

TEST(Sampler, DrawsWithTheRightFrequencies) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, kNever, 1.5f};
  Sampler sampler;
  sched::RequestSpec spec;
  const TokenHistory history(spec);
  std::vector<int> count(logits.size());
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) {
    spec.sampling.seed = static_cast<uint64_t>(i) * 77;
    ++count[sampler.Sample(logits, spec, history, i % 50).id];
  }
  EXPECT_EQ(count[3], 0);
  for (const auto& [id, probability] : sampler.Distribution(logits, spec, history, 0)) {
    EXPECT_NEAR(static_cast<double>(count[id]) / kDraws, probability, 0.01) << id;
  }
}

TEST(Sampler, TheDrawDependsOnSeedChoiceAndIndexOnly) {
  std::vector<float> logits(50000);
  std::mt19937 rng(9);
  for (float& x : logits) x = static_cast<float>(rng() % 1000) / 300;
  sched::RequestSpec spec;
  spec.sampling.seed = 5;
  const TokenHistory history(spec);
  Sampler fresh, used;
  used.Sample(std::vector<float>(70000, 0.5f), spec, history, 3);
  const int32_t id = fresh.Sample(logits, spec, history, 7).id;
  EXPECT_EQ(used.Sample(logits, spec, history, 7).id, id);
  EXPECT_NE(fresh.Sample(logits, spec, history, 8).id, id);
  spec.sampling.choice = 1;
  EXPECT_NE(fresh.Sample(logits, spec, history, 7).id, id);
  spec.sampling.choice = 0;
  spec.sampling.seed = uint64_t{5} << 32;
  EXPECT_NE(fresh.Sample(logits, spec, history, 7).id, id);
}

TEST(Sampler, LogitsThatAreNotFiniteAreAnError) {
  Sampler sampler;
  sched::RequestSpec spec;
  const TokenHistory history(spec);
  for (const double temperature : {0.0, 1.0}) {
    spec.sampling.temperature = temperature;
    for (const size_t bad : {size_t{0}, size_t{17}, size_t{99}}) {
      for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity()}) {
        std::vector<float> logits(100, 0.5f);
        logits[bad] = value;
        EXPECT_FALSE(sampler.Sample(logits, spec, history, 0).error.empty());
      }
    }
    const Draw nothing = sampler.Sample(std::vector<float>(100, kNever), spec, history, 0);
    EXPECT_FALSE(nothing.error.empty() || nothing.error_of_request);
  }
}

class AllowOnly : public sched::Constraint {
 public:
  explicit AllowOnly(int32_t id) : id_(id) {}
  bool Accept(const std::vector<int32_t>&) override { return true; }
  void Rollback(int) override {}
  void FillMask(std::vector<uint32_t>& mask) override { mask[id_ / 32] |= 1u << (id_ % 32); }

 private:
  int32_t id_;
};

TEST(Sampler, MasksAllowedTokensBadWordsAndConstraints) {
  Sampler sampler;
  const std::vector<float> logits = {5, 4, 3, 2, 1, 0, -1, -2, -3, -4};
  sched::RequestSpec spec;
  spec.sampling.temperature = 0;
  const auto greedy = [&](const std::vector<int32_t>& output) {
    TokenHistory history(spec);
    for (const int32_t id : output) history.Append(id);
    return sampler.Sample(logits, spec, history, static_cast<int32_t>(output.size()));
  };
  spec.sampling.bad_words = {{0}, {7, 8, 1}, {8, 2}};
  EXPECT_EQ(greedy({}).id, 1);
  EXPECT_EQ(greedy({7, 8}).id, 3);
  EXPECT_EQ(greedy({8}).id, 1);
  spec.sampling.allowed_token_ids = {9, 6, 400};
  EXPECT_EQ(greedy({}).id, 6);
  spec.constraint = std::make_shared<AllowOnly>(9);
  EXPECT_EQ(greedy({}).id, 9);
  spec.constraint = std::make_shared<AllowOnly>(4);
  EXPECT_EQ(greedy({}).id, -1);
  EXPECT_FALSE(greedy({}).error.empty());
  EXPECT_TRUE(greedy({}).error_of_request);
}

TEST(Sampler, LogprobsGiveRanksAndTheBestTokens) {
  Sampler sampler;
  const std::vector<float> logits = {1, 3, 3, 2, 2, 2, 0};
  const auto result = sampler.Logprobs(logits, 3, 4);
  EXPECT_EQ(result.sampled.rank, 3);
  ASSERT_EQ(result.top.size(), 4u);
  EXPECT_EQ(result.top[0].id, 1);
  EXPECT_EQ(result.top[1].id, 2);
  EXPECT_EQ(result.top[1].rank, 1);
  EXPECT_EQ(result.top[2].id, 3);
  EXPECT_EQ(result.top[3].id, 4);
  EXPECT_EQ(result.top[2].logprob, result.sampled.logprob);
  double sum = 0;
  for (int32_t id = 0; id < 7; ++id) sum += std::exp(sampler.Logprobs(logits, id, 0).sampled.logprob);
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(sampler.Logprobs(logits, 0, 100).top.size(), 7u);
}

TEST(RowOps, KthLargestEqualsASort) {
  std::mt19937 rng(5);
  std::vector<float> scratch;
  for (int round = 0; round < 50; ++round) {
    std::vector<float> row(1 + rng() % 9000);
    for (float& x : row) x = static_cast<float>(rng() % 500);
    if (round % 5 == 0) std::fill(row.begin(), row.begin() + row.size() / 2, kNever);
    std::vector<float> sorted = row;
    std::sort(sorted.begin(), sorted.end(), std::greater<float>());
    const size_t k = 1 + rng() % row.size();
    EXPECT_EQ(KthLargest(row, k, scratch), sorted[k - 1]);
  }
}

TEST(RowOps, LogSumExpOfOddSizes) {
  for (const size_t n : {1u, 15u, 16u, 17u, 1023u, 1024u, 1025u, 5000u}) {
    std::vector<float> row(n);
    std::iota(row.begin(), row.end(), 0.0f);
    for (float& x : row) x = std::sin(x) * 20;
    const float max = ScanRow(row).value;
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x));
    EXPECT_NEAR(LogSumExp(row, max), std::log(sum), 1e-5);
  }
}

}  // namespace
}  // namespace peng::engine
