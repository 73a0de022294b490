// SPDX-License-Identifier: Apache-2.0
#include "base/mmap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

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

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) Refuse(path, "cannot open: " + ErrnoText());
  struct stat info;
  if (::fstat(file.get(), &info) != 0) Refuse(path, "cannot stat: " + ErrnoText());
  if (S_ISDIR(info.st_mode)) Refuse(path, "is a folder, not a file");
  if (!S_ISREG(info.st_mode)) Refuse(path, "is not a regular file");
  device_ = info.st_dev;
  inode_ = info.st_ino;
  modified_ = info.st_mtim;
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) Refuse(path, "cannot map " + std::to_string(size_) + " bytes: " + ErrnoText());
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() { Unmap(); }

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  Unmap();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  device_ = other.device_;
  inode_ = other.inode_;
  modified_ = other.modified_;
  return *this;
}

void MappedFile::Unmap() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
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
  if (::stat(path_.c_str(), &now) != 0 || now.st_dev != device_ || now.st_ino != inode_) return;
  const auto same_time = now.st_mtim.tv_sec == modified_.tv_sec && now.st_mtim.tv_nsec == modified_.tv_nsec;
  if (static_cast<size_t>(now.st_size) == size_ && same_time) return;
  Refuse(path_,
         "changed while it was read (" + std::to_string(size_) + " bytes, now " + std::to_string(now.st_size) + ")",
         "load it again when nothing writes to it");
}

}  // namespace peng::base
