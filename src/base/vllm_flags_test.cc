// SPDX-License-Identifier: Apache-2.0
#include "base/vllm_flags.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "base/options.h"

namespace peng::base {
namespace {

TEST(VllmFlags, AreNoneOfPengsAndEachIsThereOnce) {
  std::set<std::string> seen;
  for (const VllmFlags& flags : VllmFlagTable()) {
    EXPECT_FALSE(flags.instead.empty());
    std::istringstream names{std::string(flags.names)};
    for (std::string name; names >> name;) {
      EXPECT_EQ(FindOption(name), nullptr) << name;
      EXPECT_TRUE(seen.insert(name).second) << name;
      EXPECT_EQ(ReasonAgainst(name), flags.instead);
    }
  }
  EXPECT_GT(seen.size(), 150u);
}

TEST(VllmFlags, AreFoundInEverySpelling) {
  const std::string_view eager = ReasonAgainst("enforce-eager");
  EXPECT_EQ(eager, "peng compiles and captures nothing at run time; leave it out");
  EXPECT_EQ(ReasonAgainst("enforce_eager"), eager);
  EXPECT_EQ(ReasonAgainst("no-enforce-eager"), eager);
  EXPECT_EQ(ReasonAgainst("compilation-config.mode"), eager);
  EXPECT_EQ(ReasonAgainst("tp"), ReasonAgainst("tensor-parallel-size"));
  for (const char* other : {"", "nothing", "no-", "t", "enforce", "port"}) EXPECT_EQ(ReasonAgainst(other), "") << other;
}

}  // namespace
}  // namespace peng::base
