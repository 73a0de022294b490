// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <gtest/gtest.h>

namespace peng::base {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    AppendUtf8(c, &text);
    size_t pos = 0;
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(DecodeUtf8(text, &pos), surrogate ? kInvalidCodePoint : c) << static_cast<uint32_t>(c);
    if (!surrogate) {
      ASSERT_EQ(pos, text.size());
    }
  }
}

TEST(Utf8, RefusesBrokenText) {
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x8F\x80\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE9\xB9", "\xFF", "a\xC3"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
  EXPECT_TRUE(IsValidUtf8("鹏 \xF0\x9F\x90\xA6"));
  EXPECT_TRUE(IsValidUtf8(""));
}

TEST(Utf8, OneReplacementPerCutCharacter) {
  const std::string text = "\xE9\xB9z";  // the first two bytes of 鹏
  size_t pos = 0;
  EXPECT_EQ(DecodeUtf8(text, &pos), kInvalidCodePoint);
  EXPECT_EQ(pos, 2u);
  EXPECT_EQ(DecodeUtf8(text, &pos), U'z');
}

}  // namespace
}  // namespace peng::base
