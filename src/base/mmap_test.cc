// SPDX-License-Identifier: Apache-2.0
#include "base/mmap.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/error.h"

namespace peng::base {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "peng-mmap-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& content) {
    const std::string path = folder_ + "/f";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::string RefusalOf(const std::string& path) {
    try {
      MappedFile file(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kModelFile);
      return e.what();
    }
    return "";
  }

  std::string folder_;
};

TEST_F(MappedFileTest, ShowsTheBytes) {
  MappedFile file(Write("hello"));
  ASSERT_EQ(file.size(), 5u);
  EXPECT_EQ(static_cast<char>(file.bytes()[1]), 'e');
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(file.size(), 0u);  // NOLINT(bugprone-use-after-move): the moved-from state is specified
}

TEST_F(MappedFileTest, EmptyFileIsAnEmptySpan) {
  MappedFile file(Write(""));
  EXPECT_TRUE(file.bytes().empty());
  file.Advise(Access::kSequential);
  file.Release(0, 100);
}

TEST_F(MappedFileTest, RefusesByName) {
  EXPECT_NE(RefusalOf(folder_ + "/missing").find("/missing: cannot open: No such file"), std::string::npos);
  EXPECT_NE(RefusalOf(folder_).find("is a folder"), std::string::npos);
  ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  EXPECT_NE(RefusalOf(folder_ + "/fifo").find("not a regular file"), std::string::npos);
}

TEST_F(MappedFileTest, ReleasedPagesReadTheSameAgain) {
  std::string content(PageSize() * 3 + 17, 'x');
  content[PageSize() + 5] = 'y';
  MappedFile file(Write(content));
  file.Advise(Access::kWillNeed, 1, PageSize());
  file.Release(0, file.size());
  EXPECT_EQ(static_cast<char>(file.bytes()[PageSize() + 5]), 'y');
  file.Release(5, ~size_t{0});
  file.Advise(Access::kRandom, ~size_t{0}, 5);
}

std::string ChangeOf(const MappedFile& file) {
  try {
    file.CheckUnchanged();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kModelFile);
    return e.what();
  }
  return "";
}

TEST_F(MappedFileTest, ReportsTruncation) {
  const std::string path = Write(std::string(100, 'x'));
  MappedFile file(path);
  EXPECT_EQ(ChangeOf(file), "");
  ASSERT_EQ(::truncate(path.c_str(), 10), 0);
  EXPECT_NE(ChangeOf(file).find("changed while it was in use (100 bytes, now 10)"), std::string::npos);
}

TEST_F(MappedFileTest, ReplacementByRenameKeepsTheOldBytes) {
  const std::string path = Write("old bytes");
  MappedFile file(path);
  std::ofstream(folder_ + "/new") << "new bytes";
  std::filesystem::rename(folder_ + "/new", path);
  EXPECT_EQ(ChangeOf(file), "");
  EXPECT_EQ(std::memcmp(file.data(), "old bytes", 9), 0);
}

TEST_F(MappedFileTest, BytesCutOffReadAsZeroAndAreReported) {
  const size_t page = PageSize();
  const std::string path = Write(std::string(8 * page, 'x'));
  MappedFile file(path);
  MappedFile untouched(path);
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(2 * page)), 0);
  std::atomic<int> zeros{0};
  std::vector<std::thread> threads;  // several threads fault at once
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t p = 2 + t % 2; p < 8; ++p) zeros += file.bytes()[p * page + 7] == std::byte{0} ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(zeros, 2 * (6 + 5));
  EXPECT_EQ(file.bytes()[page], std::byte{'x'}) << "what is still there stays";
  EXPECT_NE(ChangeOf(file).find("now " + std::to_string(2 * page)), std::string::npos);
  EXPECT_EQ(untouched.bytes()[5 * page], std::byte{0});
  EXPECT_NE(ChangeOf(untouched), "");
}

TEST_F(MappedFileTest, OtherBusErrorsEndTheProcessAsBefore) {
  const auto died = [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; };
  EXPECT_EXIT(
      {
        MappedFile file(Write("any"));
        raise(SIGBUS);
        _exit(0);
      },
      died, "");
}

TEST(PageRanges, AnyPageSize) {
  constexpr size_t kPage = 65536;
  EXPECT_EQ(PagesInside(32, 200000, 1 << 20, kPage), (ByteRange{65536, 196608}));
  EXPECT_EQ(PagesInside(65536, 65536, 1 << 20, kPage), (ByteRange{65536, 131072}));
  EXPECT_EQ(PagesInside(100, 1000, 1 << 20, kPage).begin, PagesInside(100, 1000, 1 << 20, kPage).end);
  EXPECT_EQ(PagesInside(65536, 5000, 70536, kPage), (ByteRange{65536, 70536})) << "the cut last page";
  EXPECT_EQ(PagesInside(0, ~size_t{0}, 10, kPage), (ByteRange{0, 10}));
  EXPECT_EQ(PagesAround(70000, 10, 1 << 20, kPage), (ByteRange{65536, 70010}));
  EXPECT_EQ(PagesAround(~size_t{0}, 10, 100, 4096).end, 100u);
}

}  // namespace
}  // namespace peng::base
