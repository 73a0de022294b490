// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"

namespace peng::backend::cpu {

// Anonymous memory, zero until it is touched, backed by huge pages where the system grants them. Throws base::Error
// (kRuntime) if the address space is refused.
class Region {
 public:
  Region() = default;
  explicit Region(int64_t bytes);
  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;  // aligned to a huge page
  int64_t bytes_ = 0;
};

// Memory that lives as long as somebody holds `owner`.
struct SharedBytes {
  std::byte* data = nullptr;
  std::shared_ptr<Region> owner;
};

// Packed weights of each shard, side by side in large regions, so that small matrices share huge pages. The lanes that
// write a piece first place it on their node.
class WeightMemory {
 public:
  explicit WeightMemory(int num_shards) : shards_(num_shards) {}
  SharedBytes Allocate(int shard, int64_t bytes);
  // The next pieces of the shard, `bytes` in all with each rounded up to kPieceBytes, come from one region: that leaves
  // no unused rest of a huge page between them.
  void Reserve(int shard, int64_t bytes);
  static constexpr int64_t kPieceBytes = 64;

 private:
  struct Shard {
    std::shared_ptr<Region> region;
    int64_t used = 0;
  };
  std::vector<Shard> shards_;
};

// The step's scratch. Without memory behind it (bytes = 0) it only counts.
class CpuArena : public Arena {
 public:
  explicit CpuArena(int64_t bytes);
  Tensor Alloc(int64_t rows, int64_t cols, tensor::DType dtype) override;
  int64_t used_bytes() const override { return used_; }
  int64_t peak_bytes() const override { return peak_; }
  void Reset() override { used_ = 0; }

 private:
  bool counting_;
  Region region_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

// A buffer that only grows: after the largest step, nothing is allocated any more. 64-byte aligned, zero when new.
class GrowingBuffer {
 public:
  std::byte* Get(int64_t bytes) {
    if (bytes > region_.bytes()) region_ = Region(bytes + bytes / 4);
    return region_.data();
  }
  float* Floats(int64_t count) { return reinterpret_cast<float*>(Get(count * static_cast<int64_t>(sizeof(float)))); }

 private:
  Region region_;
};

}  // namespace peng::backend::cpu
