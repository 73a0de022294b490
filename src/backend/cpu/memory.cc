// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/memory.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace peng::backend::cpu {
namespace {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int64_t kSlabBytes = int64_t{32} << 20;
constexpr int64_t kAlignment = 64;
static_assert(kAlignment == WeightMemory::kPieceBytes);

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Region::Region(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  // Small regions take no part in huge pages, so they need no room to align to one.
  const int64_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kAlignment;
  mapping_bytes_ = static_cast<size_t>(RoundUp(bytes, alignment) + (alignment > kAlignment ? alignment : 0));
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw base::Error(base::ErrorKind::kRuntime, "memory", fmt::format("the system refuses {} bytes", mapping_bytes_),
                      "free memory or raise the limit of the process (ulimit -v)");
  }
  data_ = reinterpret_cast<std::byte*>(RoundUp(static_cast<int64_t>(reinterpret_cast<uintptr_t>(mapping_)), alignment));
  if (alignment == kHugePageBytes) madvise(data_, static_cast<size_t>(RoundUp(bytes, alignment)), MADV_HUGEPAGE);
}

Region::~Region() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

Region::Region(Region&& other) noexcept { *this = std::move(other); }

Region& Region::operator=(Region&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void WeightMemory::Reserve(int shard, int64_t bytes) {
  if (bytes == 0) return;
  shards_[shard].region = std::make_shared<Region>(bytes);
  shards_[shard].used = 0;
}

SharedBytes WeightMemory::Allocate(int shard, int64_t bytes) {
  Shard& s = shards_[shard];
  const int64_t size = RoundUp(bytes, kAlignment);
  if (s.region == nullptr || s.used + size > s.region->bytes()) {
    s.region = std::make_shared<Region>(std::max(size, kSlabBytes));
    s.used = 0;
  }
  SharedBytes piece{s.region->data() + s.used, s.region};
  s.used += size;
  return piece;
}

CpuArena::CpuArena(int64_t bytes) : counting_(bytes == 0), region_(bytes) {}

Tensor CpuArena::Alloc(int64_t rows, int64_t cols, tensor::DType dtype) {
  PENG_CHECK(rows >= 0 && cols >= 0);
  const int64_t bytes = RoundUp(rows * cols * static_cast<int64_t>(tensor::DTypeBytes(dtype)), kAlignment);
  PENG_CHECK(counting_ || used_ + bytes <= region_.bytes());
  // A counting arena hands out addresses that are no memory but can be offset like some.
  std::byte* base = counting_ ? reinterpret_cast<std::byte*>(uintptr_t{1} << 32) : region_.data();
  const Tensor t{base + used_, dtype, rows, cols, cols};
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return t;
}

}  // namespace peng::backend::cpu
