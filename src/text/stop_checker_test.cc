// SPDX-License-Identifier: Apache-2.0
#include "text/stop_checker.h"

#include <gtest/gtest.h>

namespace peng::text {
namespace {

struct Reply {
  std::string text;
  std::optional<size_t> stop;
  bool operator==(const Reply&) const = default;
};

// Feeds `text` in pieces of `size` bytes.
Reply Feed(const std::vector<std::string>& stops, std::string_view text, size_t size, bool include = false) {
  StopChecker checker(stops, include);
  Reply run;
  for (size_t i = 0; i < text.size(); i += size) {
    auto output = checker.Push(text.substr(i, size));
    run.text += output.text;
    if (output.stop) run.stop = output.stop;
  }
  run.text += checker.Finish();
  return run;
}

TEST(StopCheckerTest, CutsDoNotMatter) {
  const std::vector<std::string> stops = {"\nUser:", "###", "aab", "中文"};
  for (const std::string text : {"hello\nUser: x", "a # ## ### b", "aaaaabc", "aaaa", "前中文后", "\nUse", "", "##"}) {
    const Reply whole = Feed(stops, text, text.size() + 1);
    for (size_t size = 1; size <= text.size(); ++size) EXPECT_EQ(Feed(stops, text, size), whole) << text;
  }
  EXPECT_EQ(Feed(stops, "hello\nUser: x", 1), (Reply{"hello", 0}));
  EXPECT_EQ(Feed(stops, "a # ## ### b", 1), (Reply{"a # ## ", 1}));
  EXPECT_EQ(Feed(stops, "aaaaabc", 1), (Reply{"aaa", 2}));
  EXPECT_EQ(Feed(stops, "前中文后", 1), (Reply{"前", 3}));
  EXPECT_EQ(Feed(stops, "\nUse", 1), (Reply{"\nUse", std::nullopt}));
  EXPECT_EQ(Feed(stops, "hello\nUser: x", 2, true), (Reply{"hello\nUser:", 0}));
}

TEST(StopCheckerTest, EveryCutOfAReply) {
  const std::string reply = "The cat sat on the mat.\n\nThe end.";
  for (size_t begin = 0; begin < reply.size(); ++begin) {
    for (size_t end = begin + 1; end <= reply.size(); ++end) {
      const std::string stop = reply.substr(begin, end - begin);
      const size_t found = reply.find(stop);
      EXPECT_EQ(Feed({stop}, reply, 3), (Reply{reply.substr(0, found), 0}));
      EXPECT_EQ(Feed({stop}, reply, 3, true), (Reply{reply.substr(0, found + stop.size()), 0}));
    }
  }
}

TEST(StopCheckerTest, FirstCompleteStopWins) {
  EXPECT_EQ(Feed({"bcd", "ab"}, "xabcd", 1), (Reply{"x", 1}));
  EXPECT_EQ(Feed({"b", "ab"}, "xabcd", 1), (Reply{"x", 1}));
  EXPECT_EQ(Feed({"abcd", "c"}, "xabcd", 9), (Reply{"xab", 1}));
  EXPECT_EQ(Feed({"", "c"}, "abcd", 9), (Reply{"ab", 1}));
}

TEST(StopCheckerTest, HoldsBackNoMoreThanNeeded) {
  StopChecker checker({"END"}, false);
  EXPECT_EQ(checker.Push("abE").text, "ab");
  EXPECT_EQ(checker.Push("N").text, "");
  EXPECT_EQ(checker.Push("E").text, "EN");
  EXPECT_EQ(checker.Push("x").text, "Ex");
  EXPECT_EQ(checker.Push("EN").text, "");
  EXPECT_EQ(checker.Finish(), "EN");
  EXPECT_EQ(checker.Push("more").text, "");
}

TEST(StopCheckerTest, NothingFollowsAStop) {
  StopChecker checker({"x"}, false);
  EXPECT_EQ(checker.Push("axb").stop, 0u);
  EXPECT_EQ(checker.Push("xc").text, "");
  EXPECT_EQ(checker.Push("xc").stop, std::nullopt);
  EXPECT_EQ(checker.Finish(), "");
}

}  // namespace
}  // namespace peng::text
