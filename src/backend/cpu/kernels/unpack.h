// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernel.h"

// What kernels need of layout.h, without headers that define inline functions: files with their own compile flags
// include this.
namespace peng::backend::cpu {

// Bytes of a tile of kTileRows rows of `cols` columns; cols is a multiple of Info(layout).block_cols.
int64_t PackedTileBytes(Layout layout, int64_t cols);

// The values of columns [begin, begin + count) of a packed tile, out[c][row]: [count][16]. For integer layouts begin
// and count are multiples of 32.
void UnpackColumns(Layout layout, const std::byte* tile, int64_t begin, int64_t count, float* out);

}  // namespace peng::backend::cpu
