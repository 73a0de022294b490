// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace peng::backend::cpu {

// How packed weights lie in memory. Kernels are written per layout; every file format says in layout.cc which layout it
// packs to without loss. Rows are grouped in tiles of kTileRows output rows; within a tile, columns run outermost, so a
// tile is one sequential stream.
enum class Layout : uint8_t {
  kF32,    // float32 [cols][16]
  kF16,    // float16 [cols][16]
  kBF16,   // bfloat16 [cols][16]
  kW4G32,  // 4-bit codes 0..15, scale f16 per 32: value = scale * (code - 8)                      (Q4_0)
  kW4G32M, // 4-bit codes 0..15, scale and minimum f16 per 32: value = scale * code + minimum     (Q4_1)
  kW8G32,  // 8-bit signed codes, scale f16 per 32: value = scale * code                           (Q8_0)
  kW6T256, // 6-bit codes, int8 scale per 16, f16 scale per 256: value = d * sc * (code - 32)      (Q6_K)
};

inline constexpr int kTileRows = 16;

// Which input rows a kernel multiplies.
enum class LhsType : uint8_t {
  kF32,    // float32 rows as they are
  kA8G32,  // int8 codes with one float32 scale per 32 columns and int32 code sums per 16 columns
};

// Byte offsets of a kA8G32 row of `cols` columns (a multiple of 32): codes int8 [cols], then scales float [cols / 32],
// then sums int32 [cols / 16]; each part starts 64-byte aligned and the row size is a multiple of 64.
struct A8G32Row {
  int64_t cols = 0;
  constexpr int64_t scales_offset() const { return (cols + 63) / 64 * 64; }
  constexpr int64_t sums_offset() const { return scales_offset() + (cols / 32 * 4 + 63) / 64 * 64; }
  constexpr int64_t bytes() const { return sums_offset() + (cols / 16 * 4 + 63) / 64 * 64; }
};

// One row of the kernel registry: a plain description with functions that own neither threads nor memory.
struct LinearKernel {
  const char* name;          // its contract: "gemm_f32_a8g32_w4g32_avx2"
  uint32_t required_isa;     // bit mask of base::IsaBit values that the CPU must have
  Layout layout;
  LhsType lhs;
  int preference;            // the highest runnable one is chosen, once, at load

  // Turns one float32 row into the form `lhs` (nothing to do for kF32: null).
  void (*quantize_lhs)(const float* x, int64_t cols, std::byte* out);

  // out[i * out_stride + t * kTileRows + j] = dot of lhs row i and packed row j of tile t, for i < m and t < num_tiles.
  // lhs rows are lhs_stride bytes apart. `packed` is the first tile, tiles follow each other. `scratch` has
  // scratch_bytes(cols) bytes of the calling thread. The bits of a result depend on its two rows only, never on m, i,
  // num_tiles or t. All 16 rows of a tile are written: the caller gives rows padded to the tile.
  void (*gemm)(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* packed, int num_tiles, int64_t cols,
               float* out, int64_t out_stride, std::byte* scratch);
  size_t (*scratch_bytes)(int64_t cols);
};

}  // namespace peng::backend::cpu
