// SPDX-License-Identifier: Apache-2.0
#include "cli/line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace peng::cli {

struct LineReader::State {
  std::string prompt;
  EditLine* edit = nullptr;
  History* history = nullptr;

  static char* Prompt(EditLine* edit) {
    void* state = nullptr;
    el_get(edit, EL_CLIENTDATA, &state);
    return static_cast<State*>(state)->prompt.data();
  }
};

LineReader::LineReader(std::string prompt) : state_(std::make_unique<State>()) {
  state_->prompt = std::move(prompt);
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return;
  // Editing counts columns by the locale's character set; a server's C locale knows only bytes.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  state_->edit = el_init("peng", stdin, stdout, stderr);
  if (state_->edit == nullptr) return;
  state_->history = history_init();
  HistEvent event;
  history(state_->history, &event, H_SETSIZE, 1000);
  el_set(state_->edit, EL_CLIENTDATA, state_.get());
  el_set(state_->edit, EL_PROMPT, &State::Prompt);
  el_set(state_->edit, EL_EDITOR, "emacs");
  el_set(state_->edit, EL_HIST, history, state_->history);
  // While a line is edited Ctrl-C is a key that drops the line; between lines it is a signal as everywhere.
  el_set(state_->edit, EL_SETTY, "-d", "-isig", nullptr);
  el_set(state_->edit, EL_BIND, "^C", "ed-start-over", nullptr);
}

LineReader::~LineReader() {
  if (state_->edit != nullptr) el_end(state_->edit);
  if (state_->history != nullptr) history_end(state_->history);
}

bool LineReader::interactive() const { return state_->edit != nullptr; }

std::optional<std::string> LineReader::Read() {
  std::string line;
  if (!interactive()) {
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  int length = 0;
  const char* text = el_gets(state_->edit, &length);
  if (text == nullptr || length <= 0) return std::nullopt;
  line.assign(text, std::strlen(text));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (!line.empty()) {
    HistEvent event;
    history(state_->history, &event, H_ENTER, line.c_str());
  }
  return line;
}

}  // namespace peng::cli
