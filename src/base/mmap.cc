// SPDX-License-Identifier: Apache-2.0
#include "base/mmap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace peng::base {
namespace {

[[noreturn]] void Refuse(const std::string& path, const std::string& what, std::string_view action = {}) {
  throw Error(ErrorKind::kModelFile, Printable(path, 4096), what, action);
}

std::string ErrnoText() { return std::strerror(errno); }

int MadviseValue(Access access) {
  switch (access) {
    case Access::kNormal:
      return MADV_NORMAL;
    case Access::kSequential:
      return MADV_SEQUENTIAL;
    case Access::kWillNeed:
      return MADV_WILLNEED;
    case Access::kRandom:
      return MADV_RANDOM;
  }
  return MADV_NORMAL;
}

// offset + length, cut to `size` and safe against wrap-around.
size_t RangeEnd(size_t offset, size_t length, size_t size) {
  if (offset >= size) return size;
  return length >= size - offset ? size : offset + length;
}

}  // namespace

size_t PageSize() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

ByteRange PagesInside(size_t offset, size_t length, size_t size, size_t page_size) {
  const size_t end = RangeEnd(offset, length, size);
  const size_t last = end == size ? size : end / page_size * page_size;
  const size_t first = std::min(offset, size) / page_size * page_size;
  const size_t begin = first == offset ? first : first + page_size;
  return begin < last ? ByteRange{begin, last} : ByteRange{std::min(begin, size), std::min(begin, size)};
}

ByteRange PagesAround(size_t offset, size_t length, size_t size, size_t page_size) {
  const size_t begin = std::min(offset, size) / page_size * page_size;
  return {begin, RangeEnd(offset, length, size)};
}

struct MappedFile::Watch {
  std::atomic<uintptr_t> begin{0};  // 0 = not in use
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> torn{false};
  Watch* next = nullptr;

  static std::atomic<Watch*> first;
};

std::atomic<MappedFile::Watch*> MappedFile::Watch::first{nullptr};

namespace {

struct sigaction g_previous_action;
size_t g_page_size = 0;  // read once, before a signal can come

}  // namespace

// Only calls that a signal handler may make. What lies behind a missing page of a file is missing as well, so the rest
// of the mapping is replaced at once.
void ReplaceMissingPages(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool from_access = info->si_code > 0;
  MappedFile::Watch* w = from_access ? MappedFile::Watch::first.load(std::memory_order_acquire) : nullptr;
  for (; w != nullptr; w = w->next) {
    const uintptr_t begin = w->begin.load(std::memory_order_acquire), end = w->end.load(std::memory_order_relaxed);
    if (begin == 0 || address < begin || address >= end) continue;
    w->torn.store(true, std::memory_order_release);
    const uintptr_t page = address / g_page_size * g_page_size;
    const int saved_errno = errno;
    const void* const zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = saved_errno;
    if (zeros != MAP_FAILED) return;
  }
  // The access is repeated and gets what it got before; a signal that somebody sent is sent again.
  ::sigaction(SIGBUS, &g_previous_action, nullptr);
  if (!from_access) ::raise(SIGBUS);
}

MappedFile::Watch* MappedFile::NewWatch(const std::byte* data, size_t size) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (g_page_size == 0) {
    g_page_size = PageSize();
    struct sigaction action = {};
    action.sa_sigaction = ReplaceMissingPages;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &g_previous_action);
  }
  Watch* watch = Watch::first.load();
  while (watch != nullptr && watch->begin.load() != 0) watch = watch->next;
  if (watch == nullptr) {
    watch = new Watch;
    watch->next = Watch::first.load();
    Watch::first.store(watch, std::memory_order_release);
  }
  const auto begin = reinterpret_cast<uintptr_t>(data);
  watch->torn = false;
  watch->end = begin + (size + g_page_size - 1) / g_page_size * g_page_size;
  watch->begin.store(begin, std::memory_order_release);
  return watch;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) Refuse(path, "cannot open: " + ErrnoText());
  try {
    Map();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

void MappedFile::Map() {
  struct stat info;
  if (::fstat(descriptor_, &info) != 0) Refuse(path_, "cannot stat: " + ErrnoText());
  if (S_ISDIR(info.st_mode)) Refuse(path_, "is a folder, not a file");
  if (!S_ISREG(info.st_mode)) Refuse(path_, "is not a regular file");
  modified_ = info.st_mtim;
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (address == MAP_FAILED) Refuse(path_, "cannot map " + std::to_string(size_) + " bytes: " + ErrnoText());
  data_ = static_cast<const std::byte*>(address);
  watch_ = NewWatch(data_, size_);
}

MappedFile::~MappedFile() { Unmap(); }

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  Unmap();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  descriptor_ = std::exchange(other.descriptor_, -1);
  watch_ = std::exchange(other.watch_, nullptr);
  modified_ = other.modified_;
  return *this;
}

void MappedFile::Unmap() {
  if (watch_ != nullptr) watch_->begin.store(0, std::memory_order_release);
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
  data_ = nullptr;
  watch_ = nullptr;
  descriptor_ = -1;
  size_ = 0;
}

void MappedFile::Advise(Access access, size_t offset, size_t length) const {
  const ByteRange pages = PagesAround(offset, length, size_, PageSize());
  if (pages.begin >= pages.end) return;
  ::madvise(const_cast<std::byte*>(data_) + pages.begin, pages.end - pages.begin, MadviseValue(access));
}

void MappedFile::Release(size_t offset, size_t length) const {
  const ByteRange pages = PagesInside(offset, length, size_, PageSize());
  if (pages.begin >= pages.end) return;
  ::madvise(const_cast<std::byte*>(data_) + pages.begin, pages.end - pages.begin, MADV_DONTNEED);
}

void MappedFile::CheckUnchanged() const {
  struct stat now;
  if (::fstat(descriptor_, &now) != 0) Refuse(path_, "cannot stat: " + ErrnoText());
  const bool same_size = static_cast<size_t>(now.st_size) == size_;
  if (!same_size || now.st_mtim.tv_sec != modified_.tv_sec || now.st_mtim.tv_nsec != modified_.tv_nsec) {
    Refuse(path_,
           "changed while it was in use (" + std::to_string(size_) + " bytes, now " + std::to_string(now.st_size) + ")",
           "put the model back and start again; replace a model that is in use by renaming, not by overwriting");
  }
  if (watch_ != nullptr && watch_->torn.load(std::memory_order_acquire)) {
    Refuse(path_, "cannot be read: the disk or the network failed", "start again when the file can be read");
  }
}

}  // namespace peng::base
