// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <gtest/gtest.h>

namespace peng::base {
namespace {

// Examples of FIPS 180-2.
constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kMillionA = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(ToHex(Sha256::Of("")), kEmpty);
  EXPECT_EQ(ToHex(Sha256::Of("abc")), kAbc);
}

TEST(Sha256, IncrementalAndReusable) {
  Sha256 sha;
  const std::string piece(1000, 'a');
  for (int i = 0; i < 1000; ++i) sha.Update(piece);
  EXPECT_EQ(ToHex(sha.Finish()), kMillionA);
  sha.Update("a");
  sha.Update("bc");
  EXPECT_EQ(ToHex(sha.Finish()), kAbc);
}

}  // namespace
}  // namespace peng::base
