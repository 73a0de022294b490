// SPDX-License-Identifier: Apache-2.0
#include "cli/words.h"

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

// "--max_model_len" -> "--max-model-len": people copy both spellings.
std::string Dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string Bare(std::string_view flag) {
  return std::string(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
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

}  // namespace

const std::string& Argument::name() const {
  const auto is_long = [](const std::string& name) { return name.starts_with("--"); };
  const auto found = std::find_if(names.begin(), names.end(), is_long);
  return found == names.end() ? names.front() : *found;
}

Words::Words(std::string command, std::vector<Argument> arguments, std::function<std::string(std::string_view)> why_not)
    : command_(std::move(command)), arguments_(std::move(arguments)), why_not_(std::move(why_not)) {}

const Argument* Words::Find(std::string_view name) const {
  for (const Argument& argument : arguments_) {
    if (std::find(argument.names.begin(), argument.names.end(), name) != argument.names.end()) return &argument;
  }
  return nullptr;
}

void Words::RefuseFlag(const std::string& flag) const {
  const std::string shown = base::Printable(flag.substr(0, flag.find('=')), 80);
  const std::string bare = Bare(shown);
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

size_t Words::TakeValues(const Argument& argument, const std::string& name, std::span<const std::string> words,
                         size_t i, std::vector<std::string>* values) const {
  do {
    if (i == words.size()) Refuse(name, "needs a value", "write " + name + " " + argument.metavar);
    if (IsFlag(words[i])) {
      const std::string word = base::Printable(words[i], 80);
      Refuse(name, "needs a value before " + word,
             "write " + name + " " + argument.metavar + ", or " + name + "=" + word + " if that is the value");
    }
    values->push_back(words[i++]);
  } while (argument.takes == Takes::kList && i < words.size() && !IsFlag(words[i]));
  return i;
}

size_t Words::TakeFlag(std::span<const std::string> words, size_t i) {
  const std::string& word = words[i++];
  const size_t equals = std::min(word.find('='), word.size());
  const bool short_one = word[1] != '-';
  std::string name = short_one ? word : Dashed(word.substr(0, equals));
  const Argument* argument = Find(name);
  std::vector<std::string> values;
  if (argument == nullptr && short_one && (argument = Find(word.substr(0, 2))) != nullptr) {  // -pTEXT
    if (argument->takes == Takes::kNothing) RefuseFlag(word);
    values.push_back(word.substr(word[2] == '=' ? 3 : 2));
  } else if (argument == nullptr && name.starts_with("--no-") && equals == word.size()) {
    argument = Find("--" + name.substr(5));
    if (argument == nullptr || argument->takes != Takes::kNothing) RefuseFlag(name);
    values.emplace_back("false");
  } else if (argument == nullptr) {
    RefuseFlag(name);
  } else if (!short_one && equals < word.size()) {
    values.push_back(word.substr(equals + 1));
  } else if (argument->takes == Takes::kNothing) {
    values.emplace_back("true");
  } else {
    i = TakeValues(*argument, name, words, i, &values);
    if (values.size() > 1) {
      greedy_ = argument;
      greedy_word_ = values.back();
    }
  }
  Give(*argument, std::move(values));
  return i;
}

void Words::Give(const Argument& argument, std::vector<std::string> values) {
  for (Given& given : given_) {
    if (given.argument != &argument) continue;
    if (argument.takes != Takes::kList) Refuse(argument.name(), "is given twice", "keep one of them");
    given.values.insert(given.values.end(), values.begin(), values.end());
    return;
  }
  given_.push_back({&argument, std::move(values)});
}

void Words::GivePositionals(const std::vector<std::string>& words) {
  auto word = words.begin();
  for (const Argument& argument : arguments_) {
    if (argument.is_positional() && word != words.end()) Give(argument, {*word++});
  }
  if (word == words.end()) return;
  std::string takes;
  for (const Argument& argument : arguments_) {
    if (argument.is_positional()) takes += (takes.empty() ? " takes " : " and ") + Upper(argument.names[0]);
  }
  Refuse(command_, "\"" + base::Printable(*word, 80) + "\" is one word too many",
         takes.empty() ? "it takes none" : command_ + takes + " only; put quotes around a text with spaces");
}

void Words::CheckRequired() const {
  for (const Argument& argument : arguments_) {
    const auto is_this = [&](const Given& given) { return given.argument == &argument; };
    if (!argument.required || std::any_of(given_.begin(), given_.end(), is_this)) continue;
    Refuse(command_, "needs " + Usage(argument), argument.help);
  }
}

bool Words::Parse(std::span<const std::string> words) {
  const auto end_of_flags = std::find(words.begin(), words.end(), "--");
  if (std::find_if(words.begin(), end_of_flags,
                   [](const std::string& word) { return word == "--help" || word == "-h"; }) != end_of_flags) {
    return false;
  }
  std::vector<std::string> positionals;
  bool flags = true;
  for (size_t i = 0; i < words.size();) {
    if (flags && words[i] == "--") {
      flags = false;
      ++i;
    } else if (flags && IsFlag(words[i])) {
      i = TakeFlag(words, i);
    } else {
      positionals.push_back(words[i++]);
    }
  }
  GivePositionals(positionals);
  if (!positionals.empty()) greedy_ = nullptr;
  CheckRequired();
  for (const Given& given : given_) given.argument->set(given.values);
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
