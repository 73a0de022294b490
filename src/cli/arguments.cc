// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "base/error.h"

namespace peng::cli {
namespace {

using base::OptionSpec;
using GivenFlags = std::map<std::string, std::vector<std::string>>;

// "--max_model_len=4" -> "--max-model-len=4": people copy both spellings.
std::string Normalize(std::string word) {
  if (word.rfind("--", 0) != 0) return word;
  const size_t end = std::min(word.find('='), word.size());
  std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return word;
}

void AddServeOption(CLI::App& app, const OptionSpec& spec, GivenFlags& given) {
  std::string help = spec.help;
  if (const std::string fallback = spec.default_text(); !fallback.empty()) help += " [" + fallback + "]";
  const std::string name = spec.name;
  if (spec.is_bool()) {
    const std::string names = spec.flag() + ",!--no-" + name;
    app.add_flag_callback(
           spec.flag(), [&given, name] { given[name] = {"true"}; }, help)
        ->group("Settings");
    app.add_flag_callback("--no-" + name, [&given, name] { given[name] = {"false"}; })->group("");
    return;
  }
  const auto take = [&given, name](const std::vector<std::string>& values) { given[name] = values; };
  const std::string names = spec.kind == OptionSpec::Kind::kPositional ? name + "," + spec.flag() : spec.flag();
  CLI::Option* option = app.add_option_function<std::vector<std::string>>(names, take, help);
  option->type_name(spec.metavar)->group("Settings");
  if (!spec.is_list()) option->expected(1);
}

void AddFlag(CLI::App& app, const Flag& flag) {
  CLI::Option* option = std::visit(
      [&](auto* target) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(target), bool*>) {
          return app.add_flag(flag.names, *target, flag.help);
        } else {
          return app.add_option(flag.names, *target, flag.help)->capture_default_str();
        }
      },
      flag.target);
  option->required(flag.required);
}

// The flag that a word which nobody knows is closest to.
std::string UnknownFlagAction(const std::string& word, bool serve_options) {
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::string nearest = serve_options ? base::NearestOption(name.substr(0, name.find('='))) : "";
  return nearest.empty() ? "see --help" : "did you mean --" + nearest + "?";
}

}  // namespace

std::optional<base::ServeOptions> ParseArguments(const CommandLine& line, int argc, char** argv) {
  CLI::App app(line.summary, std::string("peng ") + line.command);
  app.allow_extras();
  GivenFlags given;
  for (const Flag& flag : line.flags) AddFlag(app, flag);
  if (line.serve_options) {
    for (const OptionSpec& spec : base::ServeOptionTable()) AddServeOption(app, spec, given);
    app.add_option_function<std::vector<std::string>>(
           "--config", [&](const std::vector<std::string>& v) { given["config"] = v; }, "YAML or JSON file of settings")
        ->expected(1)
        ->type_name("FILE");
  }
  std::vector<std::string> words;
  for (int i = argc - 1; i >= 0; --i) words.push_back(Normalize(argv[i]));  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    throw base::Error(base::ErrorKind::kUsage, std::string("peng ") + line.command, e.what(), "see --help");
  }
  if (const std::vector<std::string> rest = app.remaining(); !rest.empty()) {
    throw base::Error(base::ErrorKind::kUsage, base::Printable(rest[0], 80),
                      "is not known to peng " + std::string(line.command),
                      UnknownFlagAction(rest[0], line.serve_options));
  }
  if (!line.serve_options) return base::ServeOptions();
  return base::ResolveServeOptions(given, base::PengEnvironment());
}

}  // namespace peng::cli
