// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>

namespace peng::base {

// The kernel's page size in bytes, read at run time: 4 KiB on x86, often 64 KiB on Arm servers.
size_t PageSize();

// How a range of a mapping is about to be read.
enum class Access { kNormal, kSequential, kWillNeed, kRandom };

// A whole file mapped read-only and shared. Move-only.
//
// The mapping shows the file as it is, not as it was: bytes that somebody overwrites change under the reader, and bytes
// cut off, or that the disk fails to give, read as zero. (The first mapping of a process installs a SIGBUS handler that
// puts zeros in their place; other SIGBUS do what they did before.) So whoever reads data of the mapping calls
// CheckUnchanged() when the reading is done. Files replaced by rename are safe.
class MappedFile {
 public:
  // Throws Error(kModelFile) that names `path` if it cannot be opened or mapped, or is no regular file. An empty file
  // gives an empty span.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Hints for [offset, offset + length), widened to whole pages and cut to the file. Never fails: they are hints.
  void Advise(Access access, size_t offset, size_t length) const;
  void Advise(Access access) const { Advise(access, 0, size_); }

  // Drops the pages that lie wholly inside [offset, offset + length) from this process; they are read from the file
  // again if touched.
  void Release(size_t offset, size_t length) const;

  // Throws Error(kModelFile) if the mapped file's size or modification time changed, or a part of it could not be read.
  void CheckUnchanged() const;

 private:
  void Map();
  void Unmap();

  // A mapping as the SIGBUS handler finds it. Never freed, so that the handler may look at any time; used again.
  struct Watch;
  friend void ReplaceMissingPages(int, siginfo_t*, void*);
  static Watch* NewWatch(const std::byte* data, size_t size);

  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
  Watch* watch_ = nullptr;
  timespec modified_ = {};
};

// Byte range [begin, end).
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

// The whole pages inside [offset, offset + length) of a file of `size` bytes; its last page, cut by the end of the
// file, counts as whole if the range reaches the end. begin == end if there are none.
ByteRange PagesInside(size_t offset, size_t length, size_t size, size_t page_size);

// The pages that touch [offset, offset + length), cut to `size`.
ByteRange PagesAround(size_t offset, size_t length, size_t size, size_t page_size);

}  // namespace peng::base
