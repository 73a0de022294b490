// SPDX-License-Identifier: Apache-2.0
#include "server/key_ring.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace peng::server {
namespace {

std::string ErrorOf(std::string_view text) {
  try {
    ParseKeyFile(text, "keys", {});
  } catch (const base::Error& e) {
    EXPECT_EQ(e.kind(), base::ErrorKind::kUsage);
    return e.what();
  }
  return "no error";
}

TEST(KeyFile, NamesDigestsLimitsAndComments) {
  const std::string digest = base::ToHex(base::Sha256::Of("hashed"));
  const std::vector<ApiKey> keys = ParseKeyFile(
      "# ours\n\nalice:one-key # hers\r\n  bob:sha256:" + digest + "\trpm=5 concurrency=2\na.b-c_1:with:colons tpm=7",
      "keys", {.requests_per_minute = 1, .tokens_per_minute = 2});
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].name, "alice");
  EXPECT_TRUE(HasDigest("one-key", keys[0].digest));
  EXPECT_EQ(keys[0].limits, (KeyLimits{1, 2, 0}));
  EXPECT_EQ(keys[1].name, "bob");
  EXPECT_TRUE(HasDigest("hashed", keys[1].digest));
  EXPECT_EQ(keys[1].limits, (KeyLimits{5, 2, 2}));
  EXPECT_FALSE(HasDigest("Hashed", keys[1].digest));
  EXPECT_EQ(keys[2].name, "a.b-c_1");
  EXPECT_TRUE(HasDigest("with:colons", keys[2].digest));
  EXPECT_EQ(keys[2].limits, (KeyLimits{1, 7, 0}));
}

TEST(KeyFile, FaultsNameTheLineAndNeverTheKey) {
  for (const std::string secret :
       {"x y:s3cret", "\xE4\xBD\xA0:s3cret", ":s3cret", "a:s3cret s3cret", "a:s3cret rpm=s3cret", "s3cret",
        "s3cret rpm=5", "sha256:s3cret", "a:s3cret rpm=-1", "a:s3cret rpm", "a:sha256:s3cret",
        "a:", "sha256:", "a:s3cret tpm=99999999999999999999", "b:1 rpm=1\nb:s3cret rpm=2"}) {
    const std::string error = ErrorOf("fine:key\n" + secret);
    EXPECT_EQ(error.rfind("keys: line ", 0), 0U) << secret << " -> " << error;
    EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
  }
}

class KeyRingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "peng-keys-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    file_ = folder_ + "/keys";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) {
    std::ofstream(file_) << text;
    ::chmod(file_.c_str(), 0600);
  }
  std::string folder_, file_;
};

TEST_F(KeyRingTest, FindsKeysOfFlagsAndFile) {
  Write("alice:from-file rpm=3\n");
  const KeyRing ring({{"one", "two words"}, file_, {.requests_per_minute = 9}});
  EXPECT_EQ(ring.size(), 3U);
  EXPECT_EQ(ring.Find("one")->name, "key-1");
  EXPECT_EQ(ring.Find("two words")->name, "key-2");
  EXPECT_EQ(ring.Find("two words")->limits.requests_per_minute, 9);
  EXPECT_EQ(ring.Find("from-file")->name, "alice");
  EXPECT_EQ(ring.Find("from-file")->limits.requests_per_minute, 3);
  for (const char* wrong : {"", "on", "one ", "ONE", "alice", "alice:from-file"}) EXPECT_EQ(ring.Find(wrong), nullptr);
}

TEST_F(KeyRingTest, ReloadSwapsTheFileAndAFaultKeepsTheOld) {
  Write("alice:old\n");
  KeyRing ring({{"flag"}, file_, {}});
  const auto held = ring.Find("old");
  Write("alice:new\n");
  ring.Reload();
  EXPECT_EQ(ring.Find("old"), nullptr);
  EXPECT_NE(ring.Find("new"), nullptr);
  EXPECT_NE(ring.Find("flag"), nullptr);
  EXPECT_EQ(held->name, "alice") << "a request under way keeps its key";
  for (const char* faulty : {"", "# nothing\n", "a:b c\n", "alice:new\nbroken\n", "key-1:new\n"}) {
    Write(faulty);
    EXPECT_THROW(ring.Reload(), base::Error);
    EXPECT_NE(ring.Find("new"), nullptr);
  }
  std::filesystem::remove(file_);
  EXPECT_THROW(ring.Reload(), base::Error);
  EXPECT_NE(ring.Find("new"), nullptr);
}

TEST_F(KeyRingTest, EmptyKeysAreRefused) {
  EXPECT_THROW(KeyRing({{""}, "", {}}), base::Error);
  EXPECT_THROW(KeyRing({{}, folder_ + "/none", {}}), base::Error);
}

TEST_F(KeyRingTest, AFileThatIsNoFileIsRefusedAndNotWaitedFor) {
  Write("alice:old\n");
  KeyRing ring({{}, file_, {}});
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  try {
    ring.Reload();
    ADD_FAILURE() << "not refused";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("is not a regular file"), std::string::npos) << e.what();
  }
  EXPECT_NE(ring.Find("old"), nullptr);
}

TEST_F(KeyRingTest, ANameBelongsToOneSource) {
  Write("key-2:x rpm=5\n");
  EXPECT_NO_THROW(KeyRing({{"one"}, file_, {}}));
  try {
    const KeyRing ring({{"one", "two"}, file_, {}});
    ADD_FAILURE() << "not refused";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("\"key-2\" is the name of a key of --api-key"), std::string::npos) << e.what();
  }
}

TEST_F(KeyRingTest, SaysWhenOthersCanReadTheFile) {
  Write("a:b\n");
  ::chmod(file_.c_str(), 0644);
  testing::internal::CaptureStderr();
  const KeyRing open({{}, file_, {}});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("chmod 600"), std::string::npos);
  ::chmod(file_.c_str(), 0600);
  testing::internal::CaptureStderr();
  const KeyRing closed({{}, file_, {}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace peng::server
