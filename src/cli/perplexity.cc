// SPDX-License-Identifier: Apache-2.0
#include "api/perplexity.h"

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"

namespace peng::cli {

int Perplexity(int argc, char** argv) {
  std::string file, phase = "prompt";
  int64_t window = 512;
  bool json = false;
  CommandLine line{"perplexity", "Measures how well a model predicts a text."};
  line.flags.push_back({"--file", "the text, UTF-8", &file, true});
  line.flags.push_back({"--window", "tokens of each independent window", &window});
  line.flags.push_back({"--phase", "compute the rows as \"prompt\" or as \"generated\" ones", &phase});
  line.flags.push_back({"--json", "print JSON", &json});
  line.quiet = true;
  const auto options = ParseArguments(line, argc, argv);
  if (!options) return 0;
  if (phase != "prompt" && phase != "generated") {
    throw base::Error(base::ErrorKind::kUsage, "--phase", "is \"" + base::Printable(phase, 40) + "\"",
                      "give prompt or generated");
  }

  constexpr size_t kMaxTextBytes = size_t{1} << 30;
  const api::PerplexityResult result =
      api::MeasurePerplexity(*options, base::ReadFile(file, kMaxTextBytes), window,
                             phase == "prompt" ? backend::Phase::kPrompt : backend::Phase::kGenerated);
  if (json) {
    base::Json out;
    out.Set("perplexity", result.perplexity).Set("tokens", result.tokens).Set("windows", result.windows);
    out.Set("phase", phase).Set("seconds", result.seconds);
    std::printf("%s\n", out.Dump().c_str());
  } else {
    std::printf("perplexity %.4f over %lld tokens in %lld windows, phase %s, %.1f s\n", result.perplexity,
                static_cast<long long>(result.tokens), static_cast<long long>(result.windows), phase.c_str(),
                result.seconds);
  }
  return 0;
}

}  // namespace peng::cli
