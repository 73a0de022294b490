// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Byte positions inside a packed tile of 16 rows. Only constants: ISA folders with their own compile flags include
// this.
//
// Integer codes lie in vectors of 64 bytes: byte 4 * row + i belongs to column 4 * j + i of vector j. One 32-bit
// element is then four columns of one row, which is what byte dot products reduce, and 16 (or 2 x 8) of them are the
// tile's rows.
namespace peng::backend::cpu::packed {

inline constexpr int kGroup = 32;        // columns that share a scale (kW6T256: that are stored together)
inline constexpr int kVectorBytes = 64;  // 16 rows x 4 bytes

// kW4G32, kW4G32M, a group: f16 scales [16], (M: f16 minima [16],) 4 vectors: low nibbles columns 4j.., high 16 + 4j..
inline constexpr int kW4CodesOffset = 32;
inline constexpr int kW4GroupBytes = 288;
inline constexpr int kW4MMinimaOffset = 32;
inline constexpr int kW4MCodesOffset = 64;
inline constexpr int kW4MGroupBytes = 320;

// kW8G32, a group: f16 scales [16], 8 vectors of signed codes.
inline constexpr int kW8CodesOffset = 32;
inline constexpr int kW8GroupBytes = 544;

// kW6T256, a super-block of 256 columns: f16 scales [16], then 8 groups of: int8 scales [2][16] of columns 0..15 and
// 16..31, 4 vectors of low nibbles as in kW4G32, 2 vectors of high bit pairs: bits 2q, 2q+1 of vector p belong to the
// codes of columns 16p + 4q...
inline constexpr int kW6BlockCols = 256;
inline constexpr int kW6GroupsOffset = 32;
inline constexpr int kW6GroupBytes = 416;
inline constexpr int kW6LowOffset = 32;    // within a group
inline constexpr int kW6HighOffset = 288;  // within a group
inline constexpr int kW6BlockBytes = kW6GroupsOffset + 8 * kW6GroupBytes;

}  // namespace peng::backend::cpu::packed
