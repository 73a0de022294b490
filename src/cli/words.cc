// SPDX-License-Identifier: Apache-2.0
#include "cli/words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/options.h"

namespace peng::cli {
namespace {

using Takes = Argument::Takes;

[[noreturn]] void Refuse(std::string_view where, std::string_view what, std::string_view action) {
  throw base::Error(base::ErrorKind::kUsage, where, what, action);
}

// "-p", "--port", "--port=8": not "-", "-1" and "- a text".
bool IsFlag(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  const std::string_view name = word.substr(word[1] == '-' ? 2 : 1);
  return name.empty() || (std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
                          name.substr(0, name.find('=')).find_first_of(" \t\n") == std::string_view::npos);
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// "-p, --prompt TEXT", "MODEL".
std::string Usage(const Argument& argument) {
  std::string text = base::Joined(argument.names);
  if (argument.is_positional()) {
    text = Upper(argument.names[0]);
    if (argument.names.size() == 1) return text;
    text += ", " + argument.name();
  }
  if (!argument.metavar.empty()) text += " " + argument.metavar;
  if (argument.takes == Takes::kList) text += "...";
  return text;
}

// Before each value that CLI11 sees, so that it takes no "-1" for a flag, no "" for none and no "[1,2]" for two. A
// value without it is a flag that was taken for one. No word of a command line contains it.
constexpr char kMark = '\0';

std::string Unmarked(std::string word) {
  std::erase(word, kMark);
  return word;
}

void Add(const Argument& argument, CLI::App* app) {
  std::string names = base::Joined(argument.names);
  const bool list = argument.takes == Takes::kList;
  if (argument.takes == Takes::kNothing) {
    for (const std::string& name : argument.names) names += name.starts_with("--") ? ", !--no-" + name.substr(2) : "";
    app->add_flag(names)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  } else {
    CLI::Option* option = app->add_option(names)->type_name(argument.metavar)->expected(1, list ? -1 : 1);
    option->allow_extra_args(list)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    option->inject_separator(list);  // "" between the values of two occurrences
  }
}

// The words as CLI11 is to see them: values marked, and '-' for '_' in flags, as people copy both spellings.
std::vector<std::string> Marked(std::span<const std::string> words, const CLI::App& app) {
  std::vector<std::string> out;
  for (bool flags = true; const std::string& word : words) {
    if (!flags || !IsFlag(word)) {
      out.push_back(kMark + word);
      continue;
    }
    flags = word != "--";
    const size_t size = std::min(word[1] == '-' ? word.find('=') : 2, word.size());
    std::string name = word.substr(0, size);
    std::replace(name.begin(), name.end(), '_', '-');
    const std::string rest = word.substr(size);  // "=8", or "8" of "-p8"
    const CLI::Option* option = app.get_option_no_throw(name);
    if (rest.empty() || option == nullptr || option->get_items_expected_max() == 0) {
      out.push_back(name + rest + (rest == "=" ? std::string(1, kMark) : ""));
      continue;
    }
    out.push_back(name);
    out.push_back(kMark + rest.substr(rest[0] == '=' ? 1 : 0));
    if (option->get_allow_extra_args()) out.emplace_back("--");  // only this value is the list's
  }
  return out;
}

}  // namespace

const std::string& Argument::name() const {
  const auto is_long = [](const std::string& name) { return name.starts_with("--"); };
  const auto found = std::find_if(names.begin(), names.end(), is_long);
  return found == names.end() ? names.front() : *found;
}

Words::Words(std::string command, std::vector<Argument> arguments, std::function<std::string(std::string_view)> why_not)
    : command_(std::move(command)), arguments_(std::move(arguments)), why_not_(std::move(why_not)) {}

void Words::RefuseFlag(const std::string& flag) const {
  const std::string shown = base::Printable(flag.substr(0, flag.find('=', 2)), 80);
  const std::string bare = shown.substr(std::min(shown.find_first_not_of('-'), shown.size()));
  if (const std::string reason = why_not_(bare); !reason.empty()) Refuse(shown, reason, "");
  std::vector<std::string_view> names;
  for (const Argument& argument : arguments_) {
    for (const std::string& name : argument.names) {
      if (name.starts_with("--")) names.push_back(std::string_view(name).substr(2));
    }
  }
  const std::string nearest = base::Nearest(bare, names);
  Refuse(shown, "is no flag of " + command_,
         nearest.empty() ? "see " + command_ + " --help" : "did you mean --" + nearest + "?");
}

void Words::RefuseWord(const std::string& word) const {
  std::string takes;
  for (const Argument& argument : arguments_) {
    if (argument.is_positional()) takes += (takes.empty() ? " takes " : " and ") + Upper(argument.names[0]);
  }
  Refuse(command_, "\"" + base::Printable(word, 80) + "\" is one word too many",
         takes.empty() ? "it takes none" : command_ + takes + " only; put quotes around a text with spaces");
}

void Words::Set(const Argument& argument, const std::vector<std::string>& marked) {
  const std::string& name = argument.name();
  std::vector<std::string> values;
  for (const std::string& value : marked) {
    if (value.empty()) continue;
    values.push_back(Unmarked(value));
    if (value[0] == kMark || argument.takes == Takes::kNothing) continue;
    const std::string word = base::Printable(values.back(), 80);
    Refuse(name, "needs a value before " + word,
           "write " + name + " " + argument.metavar + ", or " + name + "=" + word + " if that is the value");
  }
  if (values.empty()) return;
  if (values.size() > 1 && argument.takes != Takes::kList) Refuse(name, "is given twice", "keep one of them");
  if (values.size() > 1 && !marked.end()[-2].empty()) {
    greedy_ = &argument;
    greedy_word_ = values.back();
  }
  argument.set(values);
}

bool Words::Parse(std::span<const std::string> words) {
  CLI::App app;
  app.allow_extras();  // an ExtrasError has a text only
  for (const Argument& argument : arguments_) {
    if (argument.set) Add(argument, &app);  // help is CLI11's
  }
  const std::vector<std::string> marked = Marked(words, app);
  const auto asks_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::any_of(marked.begin(), marked.end(), asks_help)) return false;  // whatever is wrong with other words
  try {
    app.parse(std::vector<std::string>(marked.rbegin(), marked.rend()));
  } catch (const CLI::CallForHelp&) {  // "-h" among switches: "-vh"
    return false;
  } catch (const CLI::ArgumentMismatch&) {  // the last word is "--port" or ends with the 'p' of "-qp"
    const std::string& word = marked.back();
    const CLI::Option* option = app.get_option(word[1] == '-' ? word : std::string("-") + word.back());
    Refuse(option->get_name(), "needs a value", "write " + option->get_name() + " " + option->get_type_name());
  }
  for (const Argument& argument : arguments_) {
    if (argument.set) Set(argument, app.get_option(argument.name())->results());
  }
  for (const std::string& word : app.remaining()) {
    if (word[0] == kMark) RefuseWord(Unmarked(word));
    if (word != "--") RefuseFlag(word);
  }
  for (const Argument& argument : arguments_) {
    const bool given = argument.set && app.count(argument.name()) > 0;
    if (argument.required && !given) Refuse(command_, "needs " + Usage(argument), argument.help);
    if (argument.is_positional() && given) greedy_ = nullptr;
  }
  return true;
}

std::string Words::Help(std::string_view summary) const {
  constexpr size_t kColumn = 34;
  std::string text = "usage: " + command_;
  std::string lines;
  for (const Argument& argument : arguments_) {
    const std::string word = Upper(argument.names[0]);
    if (argument.is_positional()) text += argument.required ? " " + word : " [" + word + "]";
    std::string line = "  " + Usage(argument);
    line += line.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - line.size(), ' ');
    lines += line + argument.help + "\n";
  }
  return text + " [FLAGS]\n\n" + std::string(summary) + "\n\n" + lines;
}

}  // namespace peng::cli
