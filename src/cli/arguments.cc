// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/vllm_flags.h"
#include "cli/words.h"

namespace peng::cli {
namespace {

using base::OptionSpec;
using Takes = Argument::Takes;
using GivenFlags = std::map<std::string, std::vector<std::string>>;

[[noreturn]] void Refuse(const std::string& where, const std::string& what, const std::string& action) {
  throw base::Error(base::ErrorKind::kUsage, where, what, action);
}

std::vector<std::string> SplitNames(const char* names) {
  std::vector<std::string> out;
  for (std::string_view left = names; !left.empty();) {
    const size_t end = std::min(left.find(','), left.size());
    out.emplace_back(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return out;
}

std::string Number(double value) {
  char buffer[64];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr);
}

std::string Allowed(const Flag& flag) {
  if (flag.min == flag.max) return std::holds_alternative<int64_t*>(flag.target) ? "give an integer" : "give a number";
  return "give " + Number(flag.min) + " to " + Number(flag.max);
}

template <typename T>
void SetNumber(const Flag& flag, const std::string& name, const std::string& text, T* target) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(static_cast<double>(value))) {
    Refuse(name, "\"" + base::Printable(text, 80) + "\" is no " + (std::is_integral_v<T> ? "integer" : "number"),
           Allowed(flag));
  }
  const auto number = static_cast<double>(value);
  if (flag.min != flag.max && (number < flag.min || number > flag.max)) {
    Refuse(name, "\"" + base::Printable(text, 80) + "\" is out of range", Allowed(flag));
  }
  *target = value;
}

void SetSwitch(const std::string& name, const std::string& text, bool* target) {
  if (text != "true" && text != "false") {
    Refuse(name, "\"" + base::Printable(text, 80) + "\" is neither true nor false", "write " + name + " alone");
  }
  *target = text == "true";
}

struct FlagSetter {
  const Flag& flag;
  std::string name;
  const std::vector<std::string>& values;
  void operator()(std::string* target) const { *target = values[0]; }
  void operator()(int64_t* target) const { SetNumber(flag, name, values[0], target); }
  void operator()(double* target) const { SetNumber(flag, name, values[0], target); }
  void operator()(bool* target) const { SetSwitch(name, values[0], target); }
  void operator()(std::vector<std::string>* target) const { *target = values; }
};

// What help shows as default; empty if nothing is worth showing.
struct DefaultText {
  std::string operator()(const std::string* value) const { return *value; }
  std::string operator()(const int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return Number(*value); }
  std::string operator()(const bool*) const { return ""; }
  std::string operator()(const std::vector<std::string>*) const { return ""; }
};

std::string WithDefault(std::string help, const std::string& fallback) {
  return fallback.empty() ? help : help + " [" + fallback + "]";
}

Argument FromFlag(const Flag& flag) {
  Argument argument;
  argument.names = SplitNames(flag.names);
  const bool is_switch = std::holds_alternative<bool*>(flag.target);
  const bool is_list = std::holds_alternative<std::vector<std::string>*>(flag.target);
  argument.takes = is_switch ? Takes::kNothing : is_list ? Takes::kList : Takes::kOne;
  argument.metavar = flag.metavar;
  if (argument.metavar.empty() && !is_switch) {
    const bool text = is_list || std::holds_alternative<std::string*>(flag.target);
    argument.metavar = text ? "TEXT" : "N";
  }
  argument.help = WithDefault(flag.help, std::visit(DefaultText(), flag.target));
  argument.required = flag.required;
  const std::string name = argument.name();
  argument.set = [flag, name](const std::vector<std::string>& values) {
    std::visit(FlagSetter{flag, name, values}, flag.target);
  };
  return argument;
}

Argument FromSetting(const OptionSpec& spec, GivenFlags& given) {
  Argument argument;
  argument.names = {spec.flag()};
  argument.takes = spec.is_bool() ? Takes::kNothing : spec.is_list() ? Takes::kList : Takes::kOne;
  argument.metavar = spec.metavar;
  argument.help = WithDefault(spec.help, spec.default_text());
  argument.set = [&given, name = std::string(spec.name)](const std::vector<std::string>& values) {
    given[name] = values;
  };
  return argument;
}

// The command's own flags, then the settings that have an effect on it.
std::vector<Argument> ArgumentsOf(const CommandLine& line, GivenFlags& given) {
  std::vector<Argument> arguments;
  for (const Flag& flag : line.flags) {
    if (flag.names[0] != '-') arguments.push_back(FromFlag(flag));
  }
  if (line.settings) {
    Argument model = FromSetting(*base::FindOption("model"), given);
    model.names = {"model", "--model"};
    arguments.push_back(std::move(model));
  }
  for (const Flag& flag : line.flags) {
    if (flag.names[0] == '-') arguments.push_back(FromFlag(flag));
  }
  arguments.push_back({{"-h", "--help"}, Takes::kNothing, "", "print this", false, {}});
  if (!line.settings) return arguments;
  const auto set_config = [&given](const std::vector<std::string>& values) { given["config"] = values; };
  arguments.push_back(
      {{"--config"}, Takes::kOne, "FILE", "YAML or JSON file of the settings below", false, set_config});
  for (const OptionSpec& spec : base::ServeOptionTable()) {
    if (spec.use() <= *line.settings && spec.kind != OptionSpec::Kind::kPositional)
      arguments.push_back(FromSetting(spec, given));
  }
  return arguments;
}

// What is known about a flag that the command does not have.
std::string WhyNot(const CommandLine& line, std::string_view bare) {
  const OptionSpec* setting = base::FindOption(bare);
  if (setting == nullptr && bare.starts_with("no-")) setting = base::FindOption(bare.substr(3));
  if (setting != nullptr) {
    return std::string("is a flag of peng serve that has no effect on peng ") + line.command + "; leave it out";
  }
  const std::string_view reason = base::ReasonAgainst(bare);
  return reason.empty() ? "" : "is a flag of vLLM that peng does not have; " + std::string(reason);
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
  GivenFlags given;
  Words words(std::string("peng ") + line.command, ArgumentsOf(line, given),
              [&line](std::string_view bare) { return WhyNot(line, bare); });
  if (!words.Parse(std::vector<std::string>(argv, argv + argc))) {
    std::fputs(words.Help(line.summary).c_str(), stdout);
    return std::nullopt;
  }
  if (!line.settings) return base::ServeOptions();
  base::ServeOptions defaults;
  if (line.quiet) defaults.log_level = "warning";
  const base::ServeOptions options = base::ResolveServeOptions(given, base::PengEnvironment(), std::move(defaults));
  HideSecrets(given, argc, argv);
  if (const Argument* list = words.greedy_list(); options.model.empty() && list != nullptr) {
    Refuse("MODEL",
           "is missing: " + list->name() + " takes every word up to the next flag, also \"" +
               base::Printable(words.greedy_word(), 80) + "\"",
           "put MODEL first, or -- before it");
  }
  base::SetLogLevel(base::ParseLogLevel(options.log_level).value_or(base::LogLevel::kInfo));
  if (options.log_format == "json") base::SetLogFormat(base::LogFormat::kJson);
  return options;
}

}  // namespace peng::cli
