// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"

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
    app.add_flag_callback(spec.flag(), [&given, name] { given[name] = {"true"}; }, help)->group("Settings");
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

// A misspelt flag is named itself: left to the parser, it would be what is wrong with the flag before it.
void CheckKnown(const CLI::App& app, const std::string& word, const CommandLine& line) {
  if (word.rfind("--", 0) != 0 || word.size() == 2) return;
  const std::string flag = word.substr(0, word.find('='));
  if (app.get_option_no_throw(flag) != nullptr) return;
  const std::string nearest = line.serve_options ? base::NearestOption(flag.substr(2)) : "";
  std::string action = nearest.empty() ? "see --help" : "did you mean --" + nearest + "?";
  if (line.serve_options && !base::ReasonAgainst(flag.substr(2)).empty()) action = base::ReasonAgainst(flag.substr(2));
  throw base::Error(base::ErrorKind::kUsage, base::Printable(flag, 80),
                    std::string("is no flag of peng ") + line.command, action);
}

// Other users can read a process's arguments, its own user also its environment.
void HideSecrets(const GivenFlags& given, int argc, char** argv) {
  for (const OptionSpec& spec : base::ServeOptionTable()) {
    if (spec.kind != OptionSpec::Kind::kSecret) continue;
    if (char* value = std::getenv(spec.env().c_str())) std::fill_n(value, std::strlen(value), '*');
    const auto flag = given.find(spec.name);
    if (flag == given.end() ||
        std::all_of(flag->second.begin(), flag->second.end(), [](const std::string& s) { return s.empty(); })) {
      continue;
    }
    for (int i = 0; i < argc; ++i) {
      for (const std::string& secret : flag->second) {
        const size_t size = std::strlen(argv[i]);
        if (!secret.empty() && std::string_view(argv[i]).ends_with(secret)) {
          std::fill_n(argv[i] + size - secret.size(), secret.size(), '*');
        }
      }
    }
    base::LogWarning(
        "{} on the command line stays in the shell's history and shows in ps for a moment; use {} or a file",
        spec.flag(), spec.env());
  }
  if (char* value = std::getenv("VLLM_API_KEY")) std::fill_n(value, std::strlen(value), '*');
}

}  // namespace

std::optional<base::ServeOptions> ParseArguments(const CommandLine& line, int argc, char** argv) {
  CLI::App app(line.summary, std::string("peng ") + line.command);
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
    for (auto word = words.rbegin(); word != words.rend(); ++word) CheckKnown(app, *word, line);
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    throw base::Error(base::ErrorKind::kUsage, std::string("peng ") + line.command, base::Printable(e.what()),
                      "see --help");
  }
  if (!line.serve_options) return base::ServeOptions();
  base::ServeOptions defaults;
  if (line.quiet) defaults.log_level = "warning";
  const base::ServeOptions options = base::ResolveServeOptions(given, base::PengEnvironment(), std::move(defaults));
  HideSecrets(given, argc, argv);
  base::SetLogLevel(base::ParseLogLevel(options.log_level).value_or(base::LogLevel::kInfo));
  if (options.log_format == "json") base::SetLogFormat(base::LogFormat::kJson);
  return options;
}

}  // namespace peng::cli
