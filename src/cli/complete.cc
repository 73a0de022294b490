// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <iostream>
#include <iterator>

#include "api/build.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/generation_flags.h"
#include "cli/reply.h"

namespace peng::cli {

int Complete(int argc, char** argv) {
  std::string prompt;
  GenerationFlags generation;
  CommandLine line{"complete", "Continues a text; without --prompt, what comes from standard input.",
                   generation.Flags()};
  line.flags.push_back({"-p,--prompt,-q,--quick", "the text", &prompt});
  line.settings = base::OptionUse::kGenerating;
  line.quiet = true;
  auto options = ParseArguments(line, argc, argv);
  if (!options) return 0;
  if (prompt.empty()) prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (prompt.empty()) {
    throw base::Error(base::ErrorKind::kUsage, "--prompt", "is empty", "give a text, or one on standard input");
  }

  options->seed = generation.Seed();
  const std::unique_ptr<api::Llm> llm = api::BuildLlm(*options);
  const InterruptFlag interrupt;
  StreamReply(*llm, {prompt, generation.Params(), {}});
  std::fputc('\n', stdout);
  return 0;
}

}  // namespace peng::cli
