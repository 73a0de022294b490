// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include "api/llm.h"

namespace peng::cli {

// Set by SIGINT while one of these is alive, so that Ctrl-C ends a reply and not the program.
class InterruptFlag {
 public:
  InterruptFlag();   // takes SIGINT
  ~InterruptFlag();  // gives it back
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  static bool Taken();  // true once per interrupt
};

struct Reply {
  std::string text;
  bool interrupted = false;
  int tokens = 0;
  double first_token_seconds = 0;  // from the start to the first token
  double total_seconds = 0;
};

// Runs the request's first choice and writes its text to standard output as it comes. Ctrl-C stops the reply if an
// InterruptFlag is alive. Throws base::Error(kUsage) if the request is refused, kRuntime if it fails.
Reply StreamReply(api::Llm& llm, api::GenerateRequest request);

}  // namespace peng::cli
