// SPDX-License-Identifier: Apache-2.0
#include "base/ascii.h"

#include <gtest/gtest.h>

#include <vector>

namespace peng::base {
namespace {

TEST(Ascii, LowerLeavesOtherBytes) {
  EXPECT_EQ(AsciiLower("AZ[@az09\xc3\x84"), "az[@az09\xc3\x84");
  EXPECT_EQ(AsciiLower(""), "");
}

TEST(Ascii, TrimSpaceKeepsWhatIsInside) {
  EXPECT_EQ(TrimSpace(" \t a b\r\n"), "a b");
  EXPECT_EQ(TrimSpace("a"), "a");
  EXPECT_EQ(TrimSpace(" \n"), "");
  EXPECT_EQ(TrimSpace(""), "");
}

TEST(Ascii, JoinedHasNoCommaAtItsEnds) {
  EXPECT_EQ(Joined(std::vector<std::string>{}), "");
  EXPECT_EQ(Joined(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(Joined(std::vector<std::string>{"a", "b", ""}), "a, b, ");
}

}  // namespace
}  // namespace peng::base
