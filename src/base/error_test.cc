// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>

namespace peng::base {
namespace {

TEST(Error, LeavesEmptyPartsOut) {
  EXPECT_STREQ(Error(ErrorKind::kUsage, "--port", "70000 is too large", "use 1 to 65535").what(),
               "--port: 70000 is too large; use 1 to 65535");
  EXPECT_STREQ(Error(ErrorKind::kUsage, "--port", "no value").what(), "--port: no value");
  EXPECT_STREQ(Error(ErrorKind::kUsage, "", "no value").what(), "no value");
  EXPECT_EQ(Error(ErrorKind::kModelFile, "f", "x").exit_code(), 3);
}

TEST(Printable, ReplacesControlAndInvalidBytes) {
  EXPECT_EQ(Printable("plain 鹏"), "plain 鹏");
  EXPECT_EQ(Printable("a\nb\x1b[1m"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD[1m");
  EXPECT_EQ(Printable("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(Printable("\xC2\x85"), "\xEF\xBF\xBD") << "C1 control";
  EXPECT_EQ(Printable("\xE2\x80\xAE"), "\xEF\xBF\xBD") << "right-to-left override";
}

TEST(Printable, CutsAtCharacters) {
  EXPECT_EQ(Printable("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(Printable("abcdefghi", 8), "abcde...");
  EXPECT_EQ(Printable("鹏鹏鹏", 8), "鹏...");
  EXPECT_EQ(Printable("abc", 2), "");
}

}  // namespace
}  // namespace peng::base
