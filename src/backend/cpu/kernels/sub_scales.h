// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/packed.h"
#include "backend/cpu/kernels/unroll.h"

// Integer scales of a block of 256 columns: as bits in packed memory, as bytes for kernels. Decoded once per block in
// vectors of one byte per row. Everything is always inlined: ISA folders with their own compile flags include this.
namespace peng::backend::cpu::packed {

using RowBytes = uint8_t __attribute__((vector_size(kTileRows)));

[[gnu::always_inline]] inline RowBytes LoadRowBytes(const std::byte* p, int k) {
  RowBytes v;
  std::memcpy(&v, p + k * kTileRows, sizeof v);
  return v;
}

template <SubScales kKind>
struct SubScaleRows {
  static constexpr int kCount = kKind == SubScales::kU6MinPer32 || kKind == SubScales::kI6Per32 ? 8 : 16;
  RowBytes scale[kCount];    // int8 where the layout has signed ones
  RowBytes minimum[kCount];  // of layouts with minima

  // `in` is a block's sub-scale bytes.
  [[gnu::always_inline]] explicit SubScaleRows(const std::byte* in);
};

template <>
struct SubScaleRows<SubScales::kNone> {
  [[gnu::always_inline]] explicit SubScaleRows(const std::byte*) {}
};

template <>
[[gnu::always_inline]] inline SubScaleRows<SubScales::kI8Per16>::SubScaleRows(const std::byte* in) {
  Unroll<16>([&](auto j) __attribute__((always_inline)) { scale[j] = LoadRowBytes(in, j); });
}

// Bytes 0..7: low nibbles of scales 0..7 and, above, of 8..15. Bit pair b of byte 8 + i: high bits of scale 4 * b + i.
template <>
[[gnu::always_inline]] inline SubScaleRows<SubScales::kI6Per16>::SubScaleRows(const std::byte* in) {
  Unroll<16>([&](auto j) __attribute__((always_inline)) {
    const RowBytes low = LoadRowBytes(in, j % 8), high = LoadRowBytes(in, 8 + j % 4);
    scale[j] = ((j < 8 ? low & 15 : low >> 4) | ((high >> (j / 4 * 2)) & 3) << 4) - 32;
  });
}

template <>
[[gnu::always_inline]] inline SubScaleRows<SubScales::kU4MinPer16>::SubScaleRows(const std::byte* in) {
  Unroll<16>([&](auto j) __attribute__((always_inline)) {
    const RowBytes both = LoadRowBytes(in, j);
    scale[j] = both & 15;
    minimum[j] = both >> 4;
  });
}

// Bytes 0..3 and 4..7: scales and minima 0..3 in the low six bits, above them the high bits of 4..7, whose low nibbles
// are in bytes 8..11.
template <>
[[gnu::always_inline]] inline SubScaleRows<SubScales::kU6MinPer32>::SubScaleRows(const std::byte* in) {
  Unroll<4>([&](auto j) __attribute__((always_inline)) {
    const RowBytes s = LoadRowBytes(in, j), m = LoadRowBytes(in, 4 + j), low = LoadRowBytes(in, 8 + j);
    scale[j] = s & 63;
    minimum[j] = m & 63;
    scale[4 + j] = (low & 15) | (s >> 6) << 4;
    minimum[4 + j] = (low >> 4) | (m >> 6) << 4;
  });
}

// Bytes 0, 1: bit pairs with the high bits of scales 0..3 and 4..7. Bytes 2..5: nibbles, scale 2 * i first.
template <>
[[gnu::always_inline]] inline SubScaleRows<SubScales::kI6Per32>::SubScaleRows(const std::byte* in) {
  Unroll<8>([&](auto j) __attribute__((always_inline)) {
    const RowBytes low = LoadRowBytes(in, 2 + j / 2), high = LoadRowBytes(in, j / 4);
    scale[j] = (((low >> (j % 2 * 4)) & 15) | ((high >> (j % 4 * 2)) & 3) << 4) - 32;
  });
}

}  // namespace peng::backend::cpu::packed
