// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/commands.h"

namespace {

struct Command {
  std::string_view name;
  const char* summary;
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"serve", "serve a model over the OpenAI API", peng::cli::Serve},
    {"chat", "talk to a model in the terminal", peng::cli::Chat},
    {"complete", "continue a text", peng::cli::Complete},
    {"inspect", "list what a model file holds", peng::cli::Inspect},
    {"perplexity", "measure a model on a text", peng::cli::Perplexity},
    {"bench", "measure speed: prefill, decode", peng::cli::Bench},
    {"pull", "fetch a model from a hub, or carry one by disk", peng::cli::Pull},
    {"version", "print the version and what this machine can run", peng::cli::Version},
};

void PrintUsage(std::FILE* to) {
  std::fputs("usage: peng COMMAND [ARGUMENTS]\n\n", to);
  for (const Command& command : kCommands) {
    std::fprintf(to, "  %-12s%s\n", std::string(command.name).c_str(), command.summary);
  }
  std::fputs("\n`peng COMMAND --help` tells its arguments.\n", to);
}

// Messages may quote arguments and files: no control characters and no broken UTF-8 reach the terminal.
std::string OneLine(const char* message) { return peng::base::Printable(message, 4096); }

int Run(int argc, char** argv) {
  const std::string_view name = argc < 2 ? "" : argv[1];
  if (name == "-h" || name == "--help" || name == "help") {
    PrintUsage(stdout);
    return 0;
  }
  if (name == "--version") return peng::cli::Version(0, nullptr);
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run(argc - 2, argv + 2);
  }
  if (!name.empty()) std::fprintf(stderr, "peng: %s: no such command\n", peng::base::Printable(name, 80).c_str());
  PrintUsage(stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const peng::base::Error& e) {
    std::fprintf(stderr, "peng: %s\n", OneLine(e.what()).c_str());
    return e.exit_code();
  } catch (const std::bad_alloc&) {
    std::fputs("peng: out of memory; close other programs or use a smaller model or --max-model-len\n", stderr);
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "peng: %s\n", OneLine(e.what()).c_str());
    return 1;
  }
}
