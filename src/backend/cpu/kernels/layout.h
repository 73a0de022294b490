// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/kernels/kernel.h"
#include "backend/cpu/kernels/unpack.h"
#include "tensor/weight.h"

namespace peng::backend::cpu {

struct LayoutInfo {
  Layout layout;
  const char* name;            // as kernel names have it: "w4g32"
  tensor::Format file_format;  // the file format that packs to it without loss
  int block_cols;              // cols of a weight are a multiple of this
  int block_bytes;             // bytes of 16 rows of block_cols columns
  bool quantized;              // integer codes: has kernels for LhsType::kA8G32
};

const LayoutInfo& Info(Layout layout);
std::span<const LayoutInfo> AllLayouts();

// The layout that holds the values of `format` exactly.
Layout LayoutOf(tensor::Format format);

// Writes rows [row_begin, row_begin + kTileRows) of `w` as one tile; rows past w.rows become zeros. w.format is
// Info(layout).file_format. PackedTileBytes(layout, w.cols) bytes at `out`.
void PackTile(Layout layout, const tensor::Weight& w, int64_t row_begin, std::byte* out);

// The `cols` values of row `row` (0..15) of a packed tile: the same bits that tensor::DecodeRow gives for the file's
// row.
void UnpackRow(Layout layout, const std::byte* tile, int row, int64_t cols, float* out);

}  // namespace peng::backend::cpu
