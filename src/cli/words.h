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
  std::function<void(const std::vector<std::string>& values)> set;

  const std::string& name() const;
  bool is_positional() const { return names[0][0] != '-'; }
};

// The arguments of one command.
class Words {
 public:
  // `why_not` tells why a flag of another program or command is none here, and what to do instead; empty for others.
  Words(std::string command, std::vector<Argument> arguments, std::function<std::string(std::string_view)> why_not);

  // Sets the arguments in the order of the words. False if help is asked for. Throws base::Error(kUsage).
  bool Parse(std::span<const std::string> words);

  // For people: "  --prompt TEXT    the text", one line each.
  std::string Help(std::string_view summary) const;

  // The last list that took more than one word where no positional argument was given, and its last word: they may
  // have been meant as one. Null if there is none.
  const Argument* greedy_list() const { return greedy_; }
  const std::string& greedy_word() const { return greedy_word_; }

 private:
  struct Given {
    const Argument* argument = nullptr;
    std::vector<std::string> values;
  };

  const Argument* Find(std::string_view name) const;
  [[noreturn]] void RefuseFlag(const std::string& flag) const;
  // Takes the flag at words[i] and its values; returns the index after them.
  size_t TakeFlag(std::span<const std::string> words, size_t i);
  size_t TakeValues(const Argument& argument, const std::string& name, std::span<const std::string> words, size_t i,
                    std::vector<std::string>* values) const;
  void Give(const Argument& argument, std::vector<std::string> values);
  void GivePositionals(const std::vector<std::string>& words);
  void CheckRequired() const;

  std::string command_;  // "peng chat"
  std::vector<Argument> arguments_;
  std::function<std::string(std::string_view)> why_not_;
  std::vector<Given> given_;
  const Argument* greedy_ = nullptr;
  std::string greedy_word_;
};

}  // namespace peng::cli
