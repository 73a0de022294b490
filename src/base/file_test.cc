// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

namespace peng::base {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "peng-file-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  long FilesInFolder() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  std::string folder_;
};

std::string ErrorOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(FileTest, ReadsUpToTheLimit) {
  const std::string path = folder_ + "/f";
  const std::string content = std::string(3'000'000, 'x') + std::string("\0y", 2);
  std::ofstream(path, std::ios::binary) << content;
  EXPECT_EQ(ReadFile(path, content.size()), content);
  EXPECT_EQ(ErrorOf([&] { ReadFile(path, content.size() - 1); }), path + ": is larger than 3000001 bytes");
}

TEST_F(FileTest, ReadErrorsNameTheFile) {
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder_ + "/none", 10); }),
            folder_ + "/none: cannot open: No such file or directory");
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder_, 10); }), folder_ + ": is a folder, not a file");
  ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder_ + "/fifo", 10); }), folder_ + "/fifo: is not a regular file");
  EXPECT_EQ(ErrorOf([&] { ReadFile("/dev/zero", 10); }), "/dev/zero: is not a regular file");
  try {
    ReadFile(folder_, 10, ErrorKind::kUsage);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
  }
}

TEST_F(FileTest, ReadsFilesThatSayTheyAreEmpty) { EXPECT_GT(ReadFile("/proc/self/status", 1 << 20).size(), 10u); }

TEST_F(FileTest, CommitReplacesAtOnce) {
  const std::string path = folder_ + "/f";
  std::ofstream(path) << "old";
  {
    AtomicFileWriter writer(path);
    writer.Write("new ");
    writer.Write("content");
    EXPECT_EQ(ReadFile(path, 100), "old");
    writer.Commit();
  }
  EXPECT_EQ(ReadFile(path, 100), "new content");
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(FileTest, WithoutCommitNothingIsLeft) {
  const std::string path = folder_ + "/f";
  {
    AtomicFileWriter writer(path);
    writer.Write("x");
    EXPECT_EQ(FilesInFolder(), 1);
  }
  EXPECT_EQ(FilesInFolder(), 0);
}

TEST_F(FileTest, FailuresNameThePathAndClean) {
  EXPECT_EQ(ErrorOf([&] { AtomicFileWriter(folder_ + "/no/f"); }),
            folder_ + "/no/f: cannot create: No such file or directory");
  const std::string folder = folder_ + "/sub";
  fs::create_directory(folder);
  std::ofstream(folder + "/x") << "x";
  EXPECT_EQ(ErrorOf([&] {
              AtomicFileWriter writer(folder);
              writer.Write("x");
              writer.Commit();
            }).substr(0, folder.size() + 25),
            folder + ": cannot rename into plac");
  EXPECT_EQ(FilesInFolder(), 1);
}

}  // namespace
}  // namespace peng::base
