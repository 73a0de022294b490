// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/weights.h"

#include <fmt/core.h>

#include <algorithm>

#include "backend/cpu/kernels/registry.h"
#include "base/check.h"
#include "base/error.h"

namespace peng::backend::cpu {
namespace {

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Even parts whose bounds fall on tiles.
Partition EvenPartition(int64_t rows, int num_shards) {
  Partition p;
  for (int s = 0; s < num_shards; ++s) {
    const base::IndexRange r = base::SplitRange(static_cast<size_t>(rows), kTileRows, s, num_shards);
    if (!r.empty()) p.rows.push_back({static_cast<int64_t>(r.begin), static_cast<int64_t>(r.end), s});
  }
  return p;
}

// A view of rows [begin, end): the packer pads with zeros at its end, and a range may end within a tile.
tensor::Weight RowsOf(const tensor::Weight& w, int64_t begin, int64_t end) {
  tensor::Weight view;
  view.name = w.name;
  view.rows = end - begin;
  view.cols = w.cols;
  view.format = w.format;
  view.planes = w.planes;
  for (tensor::Plane& plane : view.planes) plane.data += begin * plane.stride_bytes;
  return view;
}

}  // namespace

CpuVector::CpuVector(const tensor::Weight& w)
    : PreparedWeight(w.rows, w.cols), values_(static_cast<size_t>(w.rows * w.cols)) {
  for (int64_t r = 0; r < w.rows; ++r) tensor::DecodeRow(w, r, values_.data() + r * w.cols);
}

MappedTable::MappedTable(tensor::Weight&& w)
    : CpuTable(w.rows, w.cols), weight_(std::move(w)), layout_(fmt::format("{} file", Info(weight_.format).name)) {}

CpuMatrix::CpuMatrix(const tensor::Weight& w, const Partition& partition, ComputeType compute, uint32_t isa,
                     int num_shards)
    : CpuTable(w.rows, w.cols), layout_(LayoutOf(w.format)), shards_(num_shards) {
  const LayoutInfo& info = Info(layout_);
  if (w.cols % info.block_cols != 0) {
    throw base::Error(base::ErrorKind::kModelFile, w.name,
                      fmt::format("{} columns are not a multiple of {} ({})", w.cols, info.block_cols, info.name));
  }
  tile_bytes_ = PackedTileBytes(layout_, w.cols);
  const LhsType lhs = compute == ComputeType::kAuto && info.quantized ? LhsType::kA8G32 : LhsType::kF32;
  prompt_kernel_ = generated_kernel_ = ChooseLinearKernel(layout_, lhs, isa);
  PENG_CHECK(prompt_kernel_ != nullptr);
  description_ = fmt::format("{} {}", info.name, prompt_kernel_->name);

  const Partition even = partition.rows.empty() ? EvenPartition(w.rows, num_shards) : Partition{};
  for (const Partition::Range& range : partition.rows.empty() ? even.rows : partition.rows) {
    PENG_CHECK(range.begin >= 0 && range.begin < range.end && range.end <= w.rows);
    PENG_CHECK(range.shard >= 0 && range.shard < num_shards);
    shards_[range.shard].push_back({range.begin, range.end, {}});
  }
}

int64_t CpuMatrix::ShardBytes(int shard) const {
  int64_t bytes = 0;
  for (const PackedRows& rows : shards_[shard]) {
    bytes += RoundUp(rows.num_tiles() * tile_bytes_, WeightMemory::kPieceBytes);
  }
  return bytes;
}

void CpuMatrix::TakeMemory(WeightMemory& memory) {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    for (PackedRows& rows : shards_[shard]) {
      rows.memory = memory.Allocate(static_cast<int>(shard), rows.num_tiles() * tile_bytes_);
    }
  }
}

void CpuMatrix::PackTiles(const tensor::Weight& w, int shard, int range, int begin, int end) {
  const PackedRows& rows = shards_[shard][range];
  const tensor::Weight part = RowsOf(w, rows.row_begin, rows.row_end);
  for (int t = begin; t < end; ++t) {
    PackTile(layout_, part, int64_t{t} * kTileRows, rows.memory.data + t * tile_bytes_);
  }
}

int64_t CpuMatrix::bytes() const {
  int64_t tiles = 0;
  for (const auto& shard : shards_) {
    for (const PackedRows& rows : shard) tiles += rows.num_tiles();
  }
  return tiles * tile_bytes_;
}

void CpuMatrix::DecodeRow(int64_t row, float* out) const {
  for (const auto& shard : shards_) {
    for (const PackedRows& rows : shard) {
      if (row < rows.row_begin || row >= rows.row_end) continue;
      const int64_t at = row - rows.row_begin;
      UnpackRow(layout_, rows.memory.data + at / kTileRows * tile_bytes_, static_cast<int>(at % kTileRows), cols(),
                out);
      return;
    }
  }
  PENG_CHECK(false);
}

bool CpuMatrix::SameSplit(const CpuMatrix& other) const {
  for (size_t s = 0; s < shards_.size(); ++s) {
    const bool same = std::equal(
        shards_[s].begin(), shards_[s].end(), other.shards_[s].begin(), other.shards_[s].end(),
        [](const PackedRows& a, const PackedRows& b) { return a.row_begin == b.row_begin && a.row_end == b.row_end; });
    if (!same) return false;
  }
  return true;
}

int64_t PackedMatrixBytes(int64_t rows, int64_t cols, tensor::Format format, int num_shards) {
  const Layout layout = LayoutOf(format);
  const int64_t padded_cols = RoundUp(cols, Info(layout).block_cols);
  const int64_t tiles = RoundUp(rows, kTileRows) / kTileRows;
  return tiles * PackedTileBytes(layout, padded_cols) + 64 * num_shards;
}

}  // namespace peng::backend::cpu
