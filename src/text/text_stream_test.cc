// SPDX-License-Identifier: Apache-2.0
#include "text/text_stream.h"

#include <gtest/gtest.h>

#include "text/test_data.h"

namespace peng::text {
namespace {

const std::shared_ptr<const Tokenizer>& SmolLm() {
  static const auto tokenizer = LoadHfTokenizer("smollm2");
  return tokenizer;
}

struct Result {
  std::string text;
  std::optional<size_t> stop;
  size_t tokens = 0;  // pushed until the stop
  bool operator==(const Result&) const = default;
};

Result Reply(std::string_view text, TextStreamOptions options) {
  TextStream stream(SmolLm(), std::move(options));
  Result run;
  for (const int32_t id : SmolLm()->Encode(text, false)) {
    auto output = stream.Push(id);
    run.text += output.text;
    ++run.tokens;
    if (output.stop) {
      run.stop = output.stop;
      return run;
    }
  }
  run.text += stream.Finish().text;
  return run;
}

TEST(TextStreamTest, HiddenSpecialTokenStops) {
  for (const bool skip : {true, false}) {
    Result run = Reply("All done<|im_end|>more", {{"never", "<|im_end|>"}, false, skip});
    EXPECT_EQ(run.text, "All done");
    EXPECT_EQ(run.stop, 1u);
    run = Reply("All done<|im_end|>more", {{"<|im_end|>"}, true, skip});
    EXPECT_EQ(run.text, "All done<|im_end|>");
  }
}

TEST(TextStreamTest, TextHeldBackComesBeforeASpecialStop) {
  const Result run = Reply("Say <|im<|im_end|>", {{"<|im_end|>", "im!"}, false, true});
  EXPECT_EQ(run.text, "Say <|im");
  EXPECT_EQ(run.stop, 0u);
}

TEST(TextStreamTest, NoStopGivesTheWholeText) {
  EXPECT_EQ(Reply("one\ntwo END", {{"ENDE", "three"}, false, true}).text, "one\ntwo END");
  EXPECT_EQ(Reply("one<|im_end|>two", {}).text, "onetwo");
  EXPECT_EQ(Reply("one<|im_end|>two", {{}, false, false}).text, "one<|im_end|>two");
}

TEST(TextStreamTest, UnfinishedCharacterAtTheEnd) {
  const std::vector<int32_t> ids = SmolLm()->Encode("😀", false);
  ASSERT_GT(ids.size(), 1u);
  TextStream stream(SmolLm(), {});
  EXPECT_EQ(stream.Push(ids[0]).text, "");
  EXPECT_EQ(stream.Finish().text, "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace peng::text
