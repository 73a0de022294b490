// SPDX-License-Identifier: Apache-2.0
#include "text/utf8_stream.h"

#include <gtest/gtest.h>

namespace peng::text {
namespace {

std::string Whole(std::string_view bytes) {
  std::string out;
  Utf8Stream utf8;
  utf8.Append(bytes, &out);
  utf8.Flush(&out);
  return out;
}

TEST(Utf8StreamTest, ReplacesMaximalParts) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(Whole("aé中😀"), "aé中😀");
  EXPECT_EQ(Whole("\xFF"
                  "a"),
            r + "a");
  EXPECT_EQ(Whole("\xC0\x80"), r + r);
  EXPECT_EQ(Whole("\xE4\xB8"
                  "a"),
            r + "a");
  EXPECT_EQ(Whole("\xE4\xB8\xE4\xB8\xAD"), r + "中");
  EXPECT_EQ(Whole("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(Whole("\xF0\x9F\x98"), r);
  EXPECT_EQ(Whole("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(Whole("\xF0\x80\x80\x80"), r + r + r + r);
  EXPECT_EQ(Whole("\xE0\x9F\xBF"), r + r + r);
}

TEST(Utf8StreamTest, CutsDoNotMatter) {
  const std::string bytes = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xFF\xE4\xB8z\xF0\x9F\xC3";
  const std::string whole = Whole(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string out;
    Utf8Stream utf8;
    utf8.Append(bytes.substr(0, cut), &out);
    EXPECT_EQ(out, whole.substr(0, out.size()));
    utf8.Append(bytes.substr(cut), &out);
    utf8.Flush(&out);
    EXPECT_EQ(out, whole);
  }
}

TEST(Utf8StreamTest, WithholdsUnfinishedCharacters) {
  std::string out;
  Utf8Stream utf8;
  utf8.Append("x\xF0\x9F\x98", &out);
  EXPECT_EQ(out, "x");
  EXPECT_TRUE(utf8.pending());
  utf8.Append("\x80", &out);
  EXPECT_EQ(out, "x😀");
  EXPECT_FALSE(utf8.pending());
}

}  // namespace
}  // namespace peng::text
