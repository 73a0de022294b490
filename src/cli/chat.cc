// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cstdio>

#include "api/build.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/generation_flags.h"
#include "cli/line_reader.h"
#include "cli/reply.h"

namespace peng::cli {
namespace {

base::Json Message(const char* role, std::string content) {
  base::Json message;
  message.Set("role", role).Set("content", std::move(content));
  return message;
}

// A conversation: what was said so far, and the model that answers.
class Conversation {
 public:
  Conversation(api::Llm& llm, std::string system_prompt, api::GenerationParams params, bool stats)
      : llm_(llm), system_prompt_(std::move(system_prompt)), params_(std::move(params)), stats_(stats) {
    Clear();
  }

  void Clear() {
    messages_ = base::Json(base::Json::Array());
    if (!system_prompt_.empty()) messages_.Push(Message("system", system_prompt_));
  }

  // A question that is refused or fails leaves no trace in the history; a reply that was stopped stays as far as it
  // got.
  void Ask(const std::string& question) {
    base::Json messages = messages_;
    messages.Push(Message("user", question));
    api::ChatPrompt prompt;
    prompt.messages = messages;
    const Reply reply = StreamReply(llm_, {prompt, params_, {}});
    std::fputs(reply.interrupted ? " [stopped]\n" : "\n", stdout);
    messages.Push(Message("assistant", reply.text));
    messages_ = std::move(messages);
    if (stats_) PrintStats(reply);
  }

 private:
  static void PrintStats(const Reply& reply) {
    const double decode_seconds = reply.total_seconds - reply.first_token_seconds;
    std::fprintf(stderr, "[%d tokens, first after %.3f s, then %.1f tokens/s]\n", reply.tokens,
                 reply.first_token_seconds, decode_seconds > 0 ? (reply.tokens - 1) / decode_seconds : 0.0);
  }

  api::Llm& llm_;
  std::string system_prompt_;
  api::GenerationParams params_;
  bool stats_;
  base::Json messages_;
};

constexpr const char* kHelp = "/clear forgets the conversation, /quit or Ctrl-D ends; Ctrl-C stops a reply.";

// "/word" alone: no question starts like that, and a misspelt command is not the model's to answer.
bool IsSlashWord(const std::string& line) {
  return line.size() > 1 && line[0] == '/' &&
         std::all_of(line.begin() + 1, line.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
}

void Loop(Conversation& conversation) {
  LineReader reader("> ");
  if (reader.interactive()) std::puts(kHelp);
  while (const std::optional<std::string> line = reader.Read()) {
    if (line->empty()) continue;
    if (*line == "/quit" || *line == "/exit") break;
    if (*line == "/clear") {
      conversation.Clear();
      continue;
    }
    if (IsSlashWord(*line)) {
      if (*line != "/help") std::fprintf(stderr, "peng: %s: no such command\n", base::Printable(*line, 80).c_str());
      std::fprintf(stderr, "%s\n", kHelp);
      continue;
    }
    try {
      conversation.Ask(*line);
    } catch (const base::Error& e) {
      std::fprintf(stderr, "peng: %s\n", e.what());
    }
  }
}

}  // namespace

int Chat(int argc, char** argv) {
  std::string quick, system_prompt;
  bool stats = false;
  GenerationFlags generation;
  CommandLine line{"chat", "Talks to a model in the terminal.", generation.Flags()};
  line.flags.push_back({"-q,--quick", "ask this one question and end", &quick});
  line.flags.push_back({"--system-prompt", "instructions before the conversation", &system_prompt});
  line.flags.push_back({"--stats", "print tokens and speed after each reply", &stats});
  line.settings = base::OptionUse::kConversing;
  line.quiet = true;
  auto options = ParseArguments(line, argc, argv);
  if (!options) return 0;

  options->seed = generation.Seed();
  const std::unique_ptr<api::Llm> llm = api::BuildLlm(*options);
  if (!llm->has_chat_template()) {
    throw base::Error(base::ErrorKind::kUsage, options->model, "has no chat template", "give one with --chat-template");
  }
  Conversation conversation(*llm, system_prompt, generation.Params(), stats);
  const InterruptFlag interrupt;
  if (quick.empty()) {
    Loop(conversation);
  } else {
    conversation.Ask(quick);
  }
  return 0;
}

}  // namespace peng::cli
