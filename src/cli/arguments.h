// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/options.h"

namespace peng::cli {

// A flag of one command, beside the settings of base::ServeOptionTable.
struct Flag {
  const char* names;  // "-q,--quick", or without dashes for a positional argument
  const char* help;
  std::variant<std::string*, int64_t*, double*, bool*, std::vector<std::string>*> target;
  bool required = false;
  const char* metavar = "";  // empty: TEXT or N
  double min = 0;            // inclusive bounds of numbers
  double max = 0;            // min == max: no bounds
};

struct CommandLine {
  const char* command;  // "chat"
  const char* summary;
  std::vector<Flag> flags = {};
  // Takes the settings of `peng serve` that have an effect on this use, from flags, environment and config file.
  std::optional<base::OptionUse> settings = std::nullopt;
  bool quiet = false;  // only warnings are logged unless --log-level says otherwise
};

// Parses the words after the command's name. Nothing if only help was asked for, which is printed then. Throws
// base::Error(kUsage). Flags may be written with '_' for '-', with their value behind a '=', and switches also as
// --no-NAME. A list takes all words up to the next flag; "--" ends it, and every flag.
std::optional<base::ServeOptions> ParseArguments(const CommandLine& line, int argc, char** argv);

}  // namespace peng::cli
