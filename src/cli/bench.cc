// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "api/speed.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"

namespace peng::cli {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int Bench(int argc, char** argv) {
  std::string what;
  int64_t input_len = 512, output_len = 64, batch_size = 1, repeats = 5;
  bool json = false;
  CommandLine line{"bench",
                   "Measures the speed of steps: prefill (rows of one prompt) or decode (one row a sequence)."};
  constexpr double kMost = 1'000'000;
  line.flags.push_back({"what", "prefill or decode", &what, true});
  line.flags.push_back({"--input-len", "prompt tokens", &input_len, false, "", 1, kMost});
  line.flags.push_back({"--output-len", "generated tokens (decode)", &output_len, false, "", 1, kMost});
  line.flags.push_back({"--batch-size", "sequences (decode)", &batch_size, false, "", 1, kMost});
  line.flags.push_back({"--num-iters", "measurements", &repeats, false, "", 1, kMost});
  line.flags.push_back({"--json", "print JSON", &json});
  line.settings = base::OptionUse::kLoading;
  line.quiet = true;
  const auto options = ParseArguments(line, argc, argv);
  if (!options) return 0;
  if (what != "prefill" && what != "decode") {
    throw base::Error(base::ErrorKind::kUsage, base::Printable(what, 40), "cannot be measured",
                      "give prefill or decode");
  }

  const api::SpeedPlan plan{what == "decode", input_len, output_len, batch_size, repeats};
  const api::SpeedResult result = api::MeasureSpeed(*options, plan);
  const auto [lowest, highest] = std::minmax_element(result.tokens_per_second.begin(), result.tokens_per_second.end());
  if (json) {
    base::Json out, samples(base::Json::Array{});
    for (const double v : result.tokens_per_second) samples.Push(v);
    out.Set("what", what).Set("backend", result.backend).Set("input_len", input_len).Set("output_len", output_len);
    out.Set("batch_size", batch_size).Set("tokens_per_second", std::move(samples));
    out.Set("median", Median(result.tokens_per_second));
    std::printf("%s\n", out.Dump().c_str());
  } else {
    std::printf("%s: %.2f tokens/s, median of %lld [%.2f..%.2f] (%s)\n", what.c_str(), Median(result.tokens_per_second),
                static_cast<long long>(repeats), *lowest, *highest, result.backend.c_str());
  }
  return 0;
}

}  // namespace peng::cli
