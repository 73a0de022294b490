// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/kernel.h"
#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/memory.h"
#include "base/thread_pool.h"

namespace peng::backend::cpu {

// A float32 vector: norm weights and biases.
class CpuVector : public PreparedWeight {
 public:
  explicit CpuVector(const tensor::Weight& w);
  int64_t bytes() const override { return static_cast<int64_t>(values_.size() * sizeof(float)); }
  std::string_view layout() const override { return "f32 vector"; }
  const float* data() const { return values_.data(); }

 private:
  std::vector<float> values_;
};

// A matrix whose rows can be decoded one by one: a table of embeddings.
class CpuTable : public PreparedWeight {
 public:
  virtual void DecodeRow(int64_t row, float* out) const = 0;
  // After rows were decoded: throws base::Error if they may be wrong, since their file is no longer what was loaded.
  virtual void CheckRead() const {}

 protected:
  using PreparedWeight::PreparedWeight;
};

// Rows in the mapped file, decoded on demand.
class MappedTable : public CpuTable {
 public:
  explicit MappedTable(tensor::Weight&& w);
  int64_t bytes() const override { return 0; }
  std::string_view layout() const override { return layout_; }
  void DecodeRow(int64_t row, float* out) const override { tensor::DecodeRow(weight_, row, out); }
  void CheckRead() const override {
    if (weight_.check) weight_.check();
  }

 private:
  tensor::Weight weight_;
  std::string layout_;
};

// Consecutive rows of a matrix, packed in tiles of kTileRows; the last tile is padded with zero rows.
struct PackedRows {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  SharedBytes memory;

  int num_tiles() const { return static_cast<int>((row_end - row_begin + kTileRows - 1) / kTileRows); }
};

// A packed matrix with the kernels of both phases, which share the one copy.
class CpuMatrix : public CpuTable {
 public:
  // `w` split over `num_shards`; `partition` may be empty. It has no memory and nothing is packed yet. Throws
  // base::Error (kModelFile) if no kernel takes its shape.
  CpuMatrix(const tensor::Weight& w, const Partition& partition, ComputeType compute, uint32_t isa, int num_shards);
  // Memory that the shard's rows need, in pieces of WeightMemory.
  int64_t ShardBytes(int shard) const;
  void TakeMemory(WeightMemory& memory);
  // Packs tiles [begin, end) of range `range` of the shard's rows; `w` is what the constructor was given.
  void PackTiles(const tensor::Weight& w, int shard, int range, int begin, int end);
  int64_t bytes() const override;
  std::string_view layout() const override { return description_; }
  void DecodeRow(int64_t row, float* out) const override;

  int64_t tile_bytes() const { return tile_bytes_; }
  const std::vector<PackedRows>& shard_rows(int shard) const { return shards_[shard]; }
  const LinearKernel& kernel(Phase phase) const {
    return phase == Phase::kPrompt ? *prompt_kernel_ : *generated_kernel_;
  }
  // Whether `other` has the same rows in the same shards, so that both can be computed tile by tile.
  bool SameSplit(const CpuMatrix& other) const;

 private:
  Layout layout_;
  int64_t tile_bytes_;
  const LinearKernel* prompt_kernel_;
  const LinearKernel* generated_kernel_;
  std::string description_;
  std::vector<std::vector<PackedRows>> shards_;  // [shard]
};

// Bytes that a packed matrix of this shape keeps, over `num_shards` shards.
int64_t PackedMatrixBytes(int64_t rows, int64_t cols, tensor::Format format, int num_shards);

}  // namespace peng::backend::cpu
