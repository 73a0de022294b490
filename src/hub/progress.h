// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace peng::hub {

// Tells on standard error how a transfer goes: a bar on a terminal; elsewhere a line per file and per tenth of the
// bytes, without control characters. Thread-safe.
class Progress {
 public:
  // `verb` is what is done with files, "pulled" or "imported".
  explicit Progress(std::string verb);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Start(int64_t total_bytes, int files);
  void Add(int64_t bytes);  // negative where a file starts again
  void FileDone(std::string_view path, int64_t bytes);
  void Line(std::string_view text);
  void Finish();  // the bar's line ends

 private:
  void Draw();
  void EraseBar();
  std::string Rate(int64_t done) const;

  const std::string verb_;
  const bool terminal_;
  std::atomic<int64_t> done_{0};
  int64_t total_ = 0;
  int files_ = 0, files_done_ = 0, tenths_ = 0;
  bool running_ = false, drawn_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::mutex mutex_;
  std::jthread drawer_;
};

}  // namespace peng::hub
