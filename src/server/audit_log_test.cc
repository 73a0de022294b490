// SPDX-License-Identifier: Apache-2.0
#include "server/audit_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"

namespace peng::server {
namespace {

using base::Json;

class AuditLogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "peng-audit-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/audit.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  std::string folder_, path_;
};

TEST_F(AuditLogTest, AppendsLinesThatOnlyTheOwnerReads) {
  {
    AuditLog log(path_);
    log.Write(Json::Object{{"a", 1}});
  }
  AuditLog log(path_);
  log.Write(Json::Object{{"a", "x\ny"}});
  EXPECT_EQ(Read(path_), "{\"a\":1}\n{\"a\":\"x\\ny\"}\n");
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(AuditLogTest, FollowsARotation) {
  AuditLog log(path_);
  log.Write(Json(1));
  std::filesystem::rename(path_, path_ + ".1");
  log.Write(Json(2));
  std::filesystem::remove(path_);
  log.Write(Json(3));
  EXPECT_EQ(Read(path_ + ".1"), "1\n");
  EXPECT_EQ(Read(path_), "3\n");
}

TEST_F(AuditLogTest, LinesOfManyThreadsDoNotMix) {
  AuditLog log(path_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 200; ++i) log.Write(Json(std::string(300, 'x')));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = Read(path_);
  EXPECT_EQ(text.size(), 800U * 303);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 800);
}

TEST_F(AuditLogTest, AFullDiskIsOneWarningAndACountAfterwards) {
  std::filesystem::create_symlink("/dev/full", path_);
  AuditLog log(path_);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) log.Write(Json(i));
  const std::string full = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(full.begin(), full.end(), '\n'), 1) << full;
  EXPECT_NE(full.find("No space left"), std::string::npos);
  std::filesystem::remove(path_);
  testing::internal::CaptureStderr();
  log.Write(Json(5));
  log.Write(Json(6));
  const std::string again = testing::internal::GetCapturedStderr();
  EXPECT_NE(again.find("5 records were lost"), std::string::npos);
  EXPECT_EQ(std::count(again.begin(), again.end(), '\n'), 1);
  EXPECT_EQ(Read(path_), "5\n6\n");
}

// A limit of the file's size cuts a record in the middle, as a full disk does.
TEST_F(AuditLogTest, ARecordThatWasCutOffDoesNotSpoilTheNext) {
  ::signal(SIGXFSZ, SIG_IGN);
  AuditLog log(path_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  log.Write(Json(std::string(50, 'x')));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  log.Write(Json(7));
  EXPECT_EQ(Read(path_), "\"xxxxxxxxx\n7\n");
}

TEST_F(AuditLogTest, RefusesWhatCannotBeOpened) {
  EXPECT_THROW(AuditLog(folder_ + "/none/audit"), base::Error);
  EXPECT_THROW(AuditLog{folder_}, base::Error);
}

}  // namespace
}  // namespace peng::server
