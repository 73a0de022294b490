// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/kernel.h"

// Byte positions inside a packed tile of 16 rows of an integer layout. Only constants and functions that are always
// inlined: ISA folders with their own compile flags include this.
//
// A tile is a run of blocks: 32 columns where the layout has one level of scales, 256 where it has two. A block is
//   scales     float16 [16]
//   minima     float16 [16], of layouts with minima; those of two levels have their scale here, with its sign turned,
//              so that every minimum is added
//   sub-scales bytes [][16], of layouts with two levels: byte k of the 16 rows is at k * 16 (sub_scales.h)
//   codes      groups of 32 columns
//
// Codes of a group lie in vectors of 64 bytes: byte 4 * row + i of a vector that holds one code per byte belongs to
// column 4 * j + i of vector j. One 32-bit element is then four columns of one row, which is what byte dot products
// reduce, and 16 (or 2 x 8) of them are the tile's rows. Smaller codes are cut into a low and a high part:
//   low, 8 bits   8 vectors j
//   low, 4 bits   4 vectors: low nibbles are vector j, high nibbles vector j + 4
//   low, 2 bits   2 vectors: bits 2q, 2q + 1 of vector p are vector 4 * p + q
//   high, 2 bits  as low, 2 bits
//   high, 1 bit   1 vector: bit j is vector j
namespace peng::backend::cpu::packed {

inline constexpr int kGroup = 32;        // columns that are stored together
inline constexpr int kVectorBytes = 64;  // 16 rows x 4 bytes

// Integer scales of a layout of two levels, and their minima.
enum class SubScales : uint8_t {
  kNone,
  kI8Per16,     // 8 bits, signed, for 16 columns
  kI6Per16,     // 6 bits, signed
  kU4MinPer16,  // 4 bits and a 4-bit minimum
  kU6MinPer32,  // 6 bits and a 6-bit minimum for 32 columns
  kI6Per32,     // 6 bits, signed
};

struct Shape {
  int low_bits = 0;
  int high_bits = 0;
  int offset = 0;      // a code c stands for c - offset
  bool table = false;  // a code stands for an entry of tensor::kIQ4Values
  bool minima = false;
  SubScales sub_scales = SubScales::kNone;

  [[gnu::always_inline]] constexpr bool two_levels() const { return sub_scales != SubScales::kNone; }
  [[gnu::always_inline]] constexpr bool per16() const {
    return two_levels() && sub_scales != SubScales::kU6MinPer32 && sub_scales != SubScales::kI6Per32;
  }
  [[gnu::always_inline]] constexpr bool signed_sub_scales() const {
    return sub_scales != SubScales::kU4MinPer16 && sub_scales != SubScales::kU6MinPer32;
  }
  [[gnu::always_inline]] constexpr int sub_scale_bytes() const {  // of one row
    switch (sub_scales) {
      case SubScales::kNone:
        return 0;
      case SubScales::kI8Per16:
      case SubScales::kU4MinPer16:
        return 16;
      case SubScales::kI6Per16:
      case SubScales::kU6MinPer32:
        return 12;
      case SubScales::kI6Per32:
        return 6;
    }
    return 0;
  }
  [[gnu::always_inline]] constexpr int groups() const { return two_levels() ? 8 : 1; }  // of a block
  [[gnu::always_inline]] constexpr int minima_offset() const { return 2 * kTileRows; }
  [[gnu::always_inline]] constexpr int sub_scales_offset() const { return (minima ? 4 : 2) * kTileRows; }
  [[gnu::always_inline]] constexpr int codes_offset() const {
    return sub_scales_offset() + kTileRows * sub_scale_bytes();
  }
  [[gnu::always_inline]] constexpr int high_offset() const { return low_bits * kVectorBytes; }  // in a group
  [[gnu::always_inline]] constexpr int group_bytes() const { return (low_bits + high_bits) * kVectorBytes; }
  [[gnu::always_inline]] constexpr int block_bytes() const { return codes_offset() + groups() * group_bytes(); }

  [[gnu::always_inline]] constexpr int64_t TileBytes(int64_t cols) const {
    return cols / (kGroup * groups()) * block_bytes();
  }
  // Position of the block of group `g`, and of the group's codes.
  [[gnu::always_inline]] constexpr int64_t BlockAt(int64_t g) const { return g / groups() * block_bytes(); }
  [[gnu::always_inline]] constexpr int64_t CodesAt(int64_t g) const {
    return BlockAt(g) + codes_offset() + g % groups() * group_bytes();
  }
};

// The vector j whose codes part `q` of vector `p` has. Nibbles of a vector are 16 columns apart, smaller parts stand
// for vectors that follow each other.
[[gnu::always_inline]] constexpr int VectorOfPart(int bits, int p, int q) {
  return bits == 4 ? p + 4 * q : p * (8 / bits) + q;
}

// The shape of an integer layout.
[[gnu::always_inline]] constexpr Shape ShapeOf(Layout layout) {
  switch (layout) {
    case Layout::kW4G32:
      return {.low_bits = 4, .offset = 8};
    case Layout::kW4G32M:
      return {.low_bits = 4, .minima = true};
    case Layout::kW8G32:
      return {.low_bits = 8};
    case Layout::kW6T256:
      return {.low_bits = 4, .high_bits = 2, .offset = 32, .sub_scales = SubScales::kI8Per16};
    case Layout::kW5G32:
      return {.low_bits = 4, .high_bits = 1, .offset = 16};
    case Layout::kW5G32M:
      return {.low_bits = 4, .high_bits = 1, .minima = true};
    case Layout::kW2T256M:
      return {.low_bits = 2, .minima = true, .sub_scales = SubScales::kU4MinPer16};
    case Layout::kW3T256:
      return {.low_bits = 2, .high_bits = 1, .offset = 4, .sub_scales = SubScales::kI6Per16};
    case Layout::kW4T256M:
      return {.low_bits = 4, .minima = true, .sub_scales = SubScales::kU6MinPer32};
    case Layout::kW5T256M:
      return {.low_bits = 4, .high_bits = 1, .minima = true, .sub_scales = SubScales::kU6MinPer32};
    case Layout::kI4G32:
      return {.low_bits = 4, .table = true};
    case Layout::kI4T256:
      return {.low_bits = 4, .table = true, .sub_scales = SubScales::kI6Per32};
    case Layout::kF32:
    case Layout::kF16:
    case Layout::kBF16:
      break;
  }
  return {};
}

}  // namespace peng::backend::cpu::packed
