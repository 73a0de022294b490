// SPDX-License-Identifier: Apache-2.0
#include "base/line_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace peng::base {
namespace {

std::string LostLine(uint64_t lost) { return "lost " + std::to_string(lost) + "\n"; }

// Everything that is in the pipe or socket now.
std::string Drain(int fd) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  std::string text(1 << 20, '\0');
  size_t size = 0;
  for (ssize_t n; size < text.size() && (n = ::read(fd, text.data() + size, text.size() - size)) > 0;) {
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

// Without a reader, both fill up: a write that waits would hang the test.
void FillAndDrain(int write_end, int read_end) {
  LineWriter writer(write_end, LostLine, 64 << 10);
  const std::string line(999, 'x');
  for (int i = 0; i < 2000; ++i) writer.Write(line + "\n");
  std::string text = Drain(read_end);
  while (!writer.Flush()) text += Drain(read_end);
  text += Drain(read_end);
  size_t whole = 0, lost = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    ASSERT_NE(end, std::string::npos) << "an unfinished line";
    const std::string found = text.substr(begin, end - begin);
    if (found.starts_with("lost ")) {
      lost += std::stoul(found.substr(5));
    } else {
      ASSERT_EQ(found, line);
      ++whole;
    }
    begin = end + 1;
  }
  EXPECT_GT(lost, 0U);
  EXPECT_EQ(whole + lost, 2000U) << "every line is there or counted";
  writer.Write("after\n");
  EXPECT_EQ(Drain(read_end), "after\n");
}

TEST(LineWriter, AFullPipeLosesWholeLinesAndSaysHowMany) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  FillAndDrain(ends[1], ends[0]);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(LineWriter, AFullSocketToo) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  FillAndDrain(ends[1], ends[0]);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(LineWriter, AClosedPipeAndAFullDiskAreSurvived) {
  ::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  for (const int fd : {ends[1], full, -1}) {
    LineWriter writer(fd, LostLine, 100);
    for (int i = 0; i < 100; ++i) writer.Write("a line of some length\n");
    EXPECT_FALSE(writer.Flush());
  }
  ::close(ends[1]);
  ::close(full);
}

}  // namespace
}  // namespace peng::base
