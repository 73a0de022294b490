// SPDX-License-Identifier: Apache-2.0
#include "hub/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "hub/select.h"

namespace peng::hub {

Progress::Progress(std::string verb) : verb_(std::move(verb)), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { Finish(); }

void Progress::Start(int64_t total_bytes, int files) {
  {
    const std::lock_guard lock(mutex_);
    total_ = total_bytes;
    files_ = files;
    begin_ = std::chrono::steady_clock::now();
    running_ = true;
  }
  if (!terminal_) return;
  drawer_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      {
        const std::lock_guard lock(mutex_);
        if (running_) Draw();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
}

void Progress::Add(int64_t bytes) {
  const int64_t done = done_ += bytes;
  if (terminal_ || total_ <= 0) return;
  const int tenths = static_cast<int>(
      std::min<int64_t>(10, static_cast<int64_t>(10.0 * static_cast<double>(done) / static_cast<double>(total_))));
  const std::lock_guard lock(mutex_);
  if (tenths <= tenths_ || tenths == 10) return;
  tenths_ = tenths;
  std::fprintf(stderr, "%d %% of %s%s\n", tenths * 10, BytesText(total_).c_str(), Rate(done).c_str());
}

void Progress::FileDone(std::string_view path, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++files_done_;
  if (!terminal_)
    std::fprintf(stderr, "%s %s (%s)\n", verb_.c_str(), base::Printable(path).c_str(), BytesText(bytes).c_str());
}

void Progress::Line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  EraseBar();
  std::fprintf(stderr, "%s\n", base::Printable(text, 4096).c_str());
}

void Progress::Finish() {
  {
    const std::lock_guard lock(mutex_);
    if (running_ && terminal_) {
      Draw();
      std::fputc('\n', stderr);
    }
    running_ = drawn_ = false;
  }
  if (drawer_.joinable()) {
    drawer_.request_stop();
    drawer_.join();
  }
}

std::string Progress::Rate(int64_t done) const {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (seconds < 1 || done <= 0) return "";
  return ", " + BytesText(static_cast<int64_t>(static_cast<double>(done) / seconds)) + "/s";
}

void Progress::Draw() {
  constexpr int kWidth = 30;
  const int64_t done = std::max<int64_t>(0, done_);
  const double share = total_ > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total_)) : 1.0;
  const std::string bar(static_cast<size_t>(share * kWidth), '#');
  std::fprintf(stderr, "\r[%-*s] %3d %% of %s, %d of %d files%s\x1b[K", kWidth, bar.c_str(),
               static_cast<int>(share * 100), BytesText(total_).c_str(), files_done_, files_, Rate(done).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::EraseBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

}  // namespace peng::hub
