// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peng::cli {

// What words of a command line can be: a flag, or a positional argument if its only name has no dashes.
struct Argument {
  enum class Takes { kNothing, kOne, kList };

  std::vector<std::string> names;  // "-p", "--prompt"; the first long one, else the first, is what messages call it
  Takes takes = Takes::kOne;
  std::string metavar;  // "FILE"
  std::string help;
  bool required = false;
  // "true" or "false" of a switch, or what its '=' says; the value; or the values, of several occurrences together.
  // Empty for the switch that asks for help.
  std::function<void(const std::vector<std::string>& values)> set;

  const std::string& name() const;
  bool is_positional() const { return names[0][0] != '-'; }
};

// The arguments of one command.
class Words {
 public:
  // `why_not` tells why a flag of another program or command is none here, and what to do instead; empty for others.
  Words(std::string command, std::vector<Argument> arguments, std::function<std::string(std::string_view)> why_not);

  // Sets the arguments that the words give. False if help is asked for, and nothing is set then. Throws
  // base::Error(kUsage), when some may be set.
  bool Parse(std::span<const std::string> words);

  // For people: "  --prompt TEXT    the text", one line each.
  std::string Help(std::string_view summary) const;

  // The last list that took more than one word where no positional argument was given, and its last word: they may
  // have been meant as one. Null if there is none.
  const Argument* greedy_list() const { return greedy_; }
  const std::string& greedy_word() const { return greedy_word_; }

 private:
  [[noreturn]] void RefuseFlag(const std::string& flag) const;
  [[noreturn]] void RefuseWord(const std::string& word) const;
  void Set(const Argument& argument, const std::vector<std::string>& marked);

  std::string command_;  // "peng chat"
  std::vector<Argument> arguments_;
  std::function<std::string(std::string_view)> why_not_;
  const Argument* greedy_ = nullptr;
  std::string greedy_word_;
};

}  // namespace peng::cli
