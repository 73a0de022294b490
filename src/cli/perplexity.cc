// SPDX-License-Identifier: Apache-2.0
#include "api/perplexity.h"

#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"

namespace peng::cli {
namespace {

std::string ReadText(const std::string& file) {
  constexpr size_t kMaxTextBytes = size_t{1} << 30;
  try {
    return base::ReadFile(file, kMaxTextBytes, base::ErrorKind::kUsage);
  } catch (const base::Error& e) {
    throw base::Error(base::ErrorKind::kUsage, "--file", e.what(), "name a text file");
  }
}

// How far the measurement is, on standard error: a line that is written over itself on a terminal, or one line each
// time if that is asked for.
class PerplexityProgress {
 public:
  PerplexityProgress(bool lines, const char* unit) : lines_(lines), unit_(unit) {}

  void Show(const api::PerplexityResult& so_far, int64_t done, int64_t total) {
    if (!lines_ && !terminal_) return;
    shown_ = true;
    std::fprintf(stderr, "%s%s %lld of %lld: perplexity %.4f so far%s", lines_ ? "" : "\r", unit_,
                 static_cast<long long>(done), static_cast<long long>(total), so_far.perplexity, lines_ ? "\n" : "");
  }
  void End() const {
    if (shown_ && !lines_) std::fputc('\n', stderr);
  }

 private:
  bool lines_;
  const char* unit_;
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
};

}  // namespace

int Perplexity(int argc, char** argv) {
  std::string file, phase = "prompt";
  int64_t window = 512;
  bool json = false, verbose = false;
  CommandLine line{"perplexity", "Measures how well a model predicts a text."};
  line.flags.push_back({"--file", "the text, UTF-8", &file, true, "FILE"});
  line.flags.push_back({"--window", "tokens of each independent window", &window});
  line.flags.push_back(
      {"--phase", "compute the rows as those of a prompt, or as generated ones", &phase, false, "prompt|generated"});
  line.flags.push_back({"--json", "print JSON", &json});
  line.flags.push_back({"--verbose", "print a line for each window, or for each position of generated rows", &verbose});
  line.settings = base::OptionUse::kLoading;
  line.quiet = true;
  const auto options = ParseArguments(line, argc, argv);
  if (!options) return 0;
  if (phase != "prompt" && phase != "generated") {
    throw base::Error(base::ErrorKind::kUsage, "--phase", "is \"" + base::Printable(phase, 40) + "\"",
                      "give prompt or generated");
  }

  const std::string text = ReadText(file);
  PerplexityProgress progress(verbose, phase == "prompt" ? "window" : "position");
  const api::PerplexityResult result = api::MeasurePerplexity(
      *options, text, window, phase == "prompt" ? backend::Phase::kPrompt : backend::Phase::kGenerated,
      [&progress](const api::PerplexityResult& so_far, int64_t done, int64_t total) {
        progress.Show(so_far, done, total);
      });
  progress.End();
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
