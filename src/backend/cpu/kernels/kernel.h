// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace peng::backend::cpu {

// How packed weights lie in memory. Kernels are written per layout; every file format says in layout.cc which layout it
// packs to without loss. Rows are grouped in tiles of kTileRows output rows; within a tile, columns run outermost, so a
// tile is one sequential stream. Byte positions inside a tile: packed.h.
//
// Names: W = integer codes of so many bits, I4 = 4-bit codes into a table of values; G32 = a float16 scale per 32
// columns; T256 = two levels: a float16 scale d per 256 columns and an integer scale s per 32 or 16; M = with a
// minimum.
enum class Layout : uint8_t {
  kF32,      // float32 [cols][16]
  kF16,      // float16 [cols][16]
  kBF16,     // bfloat16 [cols][16]
  kW4G32,    // value = scale * (code - 8)                       (Q4_0)
  kW4G32M,   // value = scale * code + minimum                   (Q4_1)
  kW8G32,    // value = scale * code, signed                     (Q8_0)
  kW6T256,   // value = d * s * (code - 32), s per 16            (Q6_K)
  kW5G32,    // value = scale * (code - 16)                      (Q5_0)
  kW5G32M,   // value = scale * code + minimum                   (Q5_1)
  kW2T256M,  // value = d * s * code + dmin * m, s and m per 16  (Q2_K)
  kW3T256,   // value = d * s * (code - 4), s per 16             (Q3_K)
  kW4T256M,  // value = d * s * code + dmin * m, s and m per 32  (Q4_K)
  kW5T256M,  // value = d * s * code + dmin * m, s and m per 32  (Q5_K)
  kI4G32,    // value = scale * table[code]                      (IQ4_NL)
  kI4T256,   // value = d * s * table[code], s per 32            (IQ4_XS)
};

inline constexpr int kTileRows = 16;

// Which input rows a kernel multiplies.
enum class LhsType : uint8_t {
  kF32,    // float32 rows as they are, any layout: the whole product is float32 arithmetic on the stored weights
  kA8G32,  // int8 codes with one float32 scale per 32 columns; integer layouts only
};

// Byte offsets of a kA8G32 row of `cols` columns (a multiple of 32). Each part starts 64-byte aligned and the row size
// is a multiple of 64:
//   codes        int8  [cols]            -127..127: x = scale * code
//   scales       float [cols / 32]       NaN when the group holds a NaN or an infinity: its outputs become NaN
//   scaled sums  float [cols / 32]       scale * sum of the group's codes
//   pair sums    int16 [cols / 32][2]    sums of the group's codes in columns 4i, 4i+1 and in columns 4i+2, 4i+3
//   half sums    int16 [cols / 16][2]    the same per 16 columns
struct A8G32Row {
  int64_t cols = 0;
  [[gnu::always_inline]] static constexpr int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  [[gnu::always_inline]] constexpr int64_t scales_offset() const { return Align(cols); }
  [[gnu::always_inline]] constexpr int64_t scaled_sums_offset() const { return scales_offset() + Align(cols / 8); }
  [[gnu::always_inline]] constexpr int64_t pair_sums_offset() const { return scaled_sums_offset() + Align(cols / 8); }
  [[gnu::always_inline]] constexpr int64_t half_sums_offset() const { return pair_sums_offset() + Align(cols / 8); }
  [[gnu::always_inline]] constexpr int64_t bytes() const { return half_sums_offset() + Align(cols / 4); }
};

// What a kernel computes in one call:
//   out[i * out_stride + t * kTileRows + j] = dot of lhs row i and packed row j of tile t, for i < m and t < num_tiles
// with m >= 1 and num_tiles >= 1. All 16 rows of a tile are written: the caller gives rows padded to the tile. The bits
// of a result depend on its two rows only, never on m, i, num_tiles or t. Fast when m is large and the lhs rows of a
// call stay in the L2 cache (m * cols up to about 256 Ki); num_tiles as large as the work split allows.
struct GemmCall {
  const std::byte* lhs;
  int64_t lhs_stride;  // bytes: a multiple of 64 for kA8G32, of 4 for kF32
  int m;
  const std::byte* packed;  // the first tile, 64-byte aligned; tiles follow each other, PackedTileBytes apart
  int num_tiles;
  int64_t cols;
  float* out;
  int64_t out_stride;  // floats
  std::byte* scratch;  // scratch_bytes(cols) bytes of the calling thread, 64-byte aligned
};

// One row of the kernel registry: a plain description with functions that own neither threads nor memory.
struct LinearKernel {
  const char* name;       // its contract: "gemm_f32_a8g32_w4g32_avx2" = out, lhs, packed layout, ISA
  uint32_t required_isa;  // bits of IsaBit (isa.h) that the CPU must have
  Layout layout;
  LhsType lhs;
  int preference;  // the highest runnable one is chosen, once, at load

  // Turns one float32 row into the form `lhs`: A8G32Row{cols}.bytes() bytes at `out`, 64-byte aligned. Null for kF32.
  void (*quantize_lhs)(const float* x, int64_t cols, std::byte* out);
  void (*gemm)(const GemmCall& call);
  size_t (*scratch_bytes)(int64_t cols);  // may be 0
};

}  // namespace peng::backend::cpu
