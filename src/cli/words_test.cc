// SPDX-License-Identifier: Apache-2.0
#include "cli/words.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace peng::cli {
namespace {

using Takes = Argument::Takes;
using Values = std::map<std::string, std::vector<std::string>>;

// `peng serve [MODEL]` with a few flags.
class WordsTest : public testing::Test {
 protected:
  Argument Make(std::vector<std::string> names, Takes takes) {
    const std::string name = names.back();
    return {std::move(names),
            takes,
            takes == Takes::kNothing ? "" : "X",
            "what " + name + " is",
            false,
            [this, name](const std::vector<std::string>& values) { values_[name] = values; }};
  }

  Words MakeWords() {
    std::vector<Argument> arguments = {Make({"model", "--model"}, Takes::kOne), Make({"-p", "--port"}, Takes::kOne),
                                       Make({"--max-tokens"}, Takes::kOne), Make({"--api-key"}, Takes::kList),
                                       Make({"--offline"}, Takes::kNothing)};
    return {"peng serve", std::move(arguments),
            [](std::string_view bare) { return std::string(bare == "eager" ? "is vLLM's; leave it out" : ""); }};
  }

  // What is set by the words; "help" if they ask for it; else the message.
  std::string ErrorOf(const std::vector<std::string>& words) {
    values_.clear();
    try {
      return MakeWords().Parse(words) ? "fine" : "help";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.kind(), base::ErrorKind::kUsage);
      return e.what();
    }
  }
  Values ValuesOf(const std::vector<std::string>& words) {
    EXPECT_EQ(ErrorOf(words), "fine");
    return values_;
  }

  Values values_;
};

TEST_F(WordsTest, AFlagMayStandOnEitherSideOfThePositional) {
  const Values both = {{"--model", {"m"}}, {"--port", {"8"}}};
  EXPECT_EQ(ValuesOf({"--port", "8", "m"}), both);
  EXPECT_EQ(ValuesOf({"m", "--port", "8"}), both);
  EXPECT_EQ(ValuesOf({"--port=8", "m"}), both);
  EXPECT_EQ(ValuesOf({"-p", "8", "m"}), both);
  EXPECT_EQ(ValuesOf({"-p8", "m"}), both);
  EXPECT_EQ(ValuesOf({"m", "-p=8"}), both);
  EXPECT_EQ(ValuesOf({"--model", "m", "--port", "8"}), both);
}

TEST_F(WordsTest, SpellingsAndValues) {
  EXPECT_EQ(ValuesOf({"--max_tokens=a_b=c"}), (Values{{"--max-tokens", {"a_b=c"}}}));
  EXPECT_EQ(ValuesOf({"--port=", "m"}), (Values{{"--model", {"m"}}, {"--port", {""}}}));
  EXPECT_EQ(ValuesOf({"--port", "-1"}), (Values{{"--port", {"-1"}}}));
  EXPECT_EQ(ValuesOf({"--port", "- a text"}), (Values{{"--port", {"- a text"}}}));
  EXPECT_EQ(ValuesOf({"--port=--offline"}), (Values{{"--port", {"--offline"}}}));
  EXPECT_EQ(ValuesOf({"--port", "[1]"}), (Values{{"--port", {"[1]"}}}));
  EXPECT_EQ(ValuesOf({"--offline"}), (Values{{"--offline", {"true"}}}));
  EXPECT_EQ(ValuesOf({"--no-offline", "m"}), (Values{{"--model", {"m"}}, {"--offline", {"false"}}}));
  EXPECT_EQ(ValuesOf({"--offline=false"}), (Values{{"--offline", {"false"}}}));
  EXPECT_EQ(ValuesOf({"--offline="}), (Values{{"--offline", {""}}}));
  EXPECT_EQ(ValuesOf({"--port", "", "{}"}), (Values{{"--model", {"{}"}}, {"--port", {""}}}));
  EXPECT_EQ(ValuesOf({"--", "--port"}), (Values{{"--model", {"--port"}}}));
}

TEST_F(WordsTest, ListsEndAtAFlag) {
  EXPECT_EQ(ValuesOf({"--api-key", "a", "b", "--port", "8", "m"}),
            (Values{{"--api-key", {"a", "b"}}, {"--model", {"m"}}, {"--port", {"8"}}}));
  EXPECT_EQ(ValuesOf({"--api-key", "a", "--", "m"}), (Values{{"--api-key", {"a"}}, {"--model", {"m"}}}));
  EXPECT_EQ(ValuesOf({"--api-key=a", "m", "--api-key=[b]"}), (Values{{"--api-key", {"a", "[b]"}}, {"--model", {"m"}}}));
  EXPECT_EQ(ValuesOf({"--api-key", "[a,b]", "", "-1", "++", "%%"}),
            (Values{{"--api-key", {"[a,b]", "", "-1", "++", "%%"}}}));
  Words words = MakeWords();
  ASSERT_TRUE(words.Parse(std::vector<std::string>{"--api-key", "a", "m"}));
  ASSERT_NE(words.greedy_list(), nullptr);
  EXPECT_EQ(words.greedy_list()->name(), "--api-key");
  EXPECT_EQ(words.greedy_word(), "m");
  for (const std::vector<std::string>& one_each : {std::vector<std::string>{"--api-key", "a", "--api-key", "b"},
                                                   std::vector<std::string>{"m", "--api-key", "a", "b"}}) {
    Words others = MakeWords();
    ASSERT_TRUE(others.Parse(one_each));
    EXPECT_EQ(others.greedy_list(), nullptr);
  }
}

TEST_F(WordsTest, FaultsNameTheFlagAndWhatToDo) {
  EXPECT_EQ(ErrorOf({"--prot", "8"}), "--prot: is no flag of peng serve; did you mean --port?");
  EXPECT_EQ(ErrorOf({"m", "--max-token", "2"}), "--max-token: is no flag of peng serve; did you mean --max-tokens?");
  EXPECT_EQ(ErrorOf({"--zzzzzz=secret"}), "--zzzzzz: is no flag of peng serve; see peng serve --help");
  EXPECT_EQ(ErrorOf({"--eager"}), "--eager: is vLLM's; leave it out");
  EXPECT_EQ(ErrorOf({"-tp", "2"}), "-tp: is no flag of peng serve; see peng serve --help");
  EXPECT_EQ(ErrorOf({"--no-port"}), "--no-port: is no flag of peng serve; see peng serve --help");
  EXPECT_EQ(ErrorOf({"m", "-p"}), "--port: needs a value; write --port X");
  EXPECT_EQ(ErrorOf({"--port"}), "--port: needs a value; write --port X");
  EXPECT_EQ(ErrorOf({"--port", "--offline"}),
            "--port: needs a value before --offline; write --port X, or --port=--offline if that is the value");
  EXPECT_EQ(ErrorOf({"--api-key", "--", "m"}),
            "--api-key: needs a value before --; write --api-key X, or --api-key=-- if that is the value");
  EXPECT_EQ(ErrorOf({"--port", "1", "-p", "2"}), "--port: is given twice; keep one of them");
  EXPECT_EQ(ErrorOf({"m", "--model", "n"}), "--model: is given twice; keep one of them");
  EXPECT_EQ(
      ErrorOf({"m", "n"}),
      "peng serve: \"n\" is one word too many; peng serve takes MODEL only; put quotes around a text with spaces");
}

TEST_F(WordsTest, WhatIsRequired) {
  Argument file = Make({"--file"}, Takes::kOne);
  file.required = true;
  Words words("peng perplexity", {file}, [](std::string_view) { return ""; });
  try {
    words.Parse({});
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_STREQ(e.what(), "peng perplexity: needs --file X; what --file is");
  }
}

TEST_F(WordsTest, HelpWinsAndListsEveryArgument) {
  EXPECT_EQ(ErrorOf({"--prot", "8", "--help"}), "help");
  EXPECT_EQ(ErrorOf({"-h"}), "help");
  EXPECT_EQ(ErrorOf({"--port", "--help"}), "help");
  EXPECT_EQ(ErrorOf({"-h", "--port"}), "help");
  EXPECT_EQ(ValuesOf({"--", "-h"}), (Values{{"--model", {"-h"}}}));
  EXPECT_EQ(MakeWords().Help("Serves."),
            "usage: peng serve [MODEL] [FLAGS]\n\nServes.\n\n"
            "  MODEL, --model X                what --model is\n"
            "  -p, --port X                    what --port is\n"
            "  --max-tokens X                  what --max-tokens is\n"
            "  --api-key X...                  what --api-key is\n"
            "  --offline                       what --offline is\n");
}

}  // namespace
}  // namespace peng::cli
