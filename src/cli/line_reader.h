// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace peng::cli {

// Lines of standard input. On a terminal with editing and history (libedit, which counts the columns of wide characters
// and takes what an input method commits), otherwise plainly and without a prompt.
class LineReader {
 public:
  explicit LineReader(std::string prompt);
  ~LineReader();

  // The next line without its end, as UTF-8; nothing at the end of the input (Ctrl-D). An interrupt gives an empty
  // line.
  std::optional<std::string> Read();
  bool interactive() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peng::cli
