// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/packed.h"
#include "backend/cpu/kernels/sub_scales.h"
#include "base/check.h"
#include "base/half.h"
#include "tensor/decode.h"

// Access to packed integer layouts for code that is compiled with the baseline flags (unpacking and the portable
// kernels). A group is 32 columns of 16 rows.
namespace peng::backend::cpu {

template <typename T>
T LoadAs(const void* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// One value of each of the 16 rows of a tile; GCC and Clang map these types to the vectors that the machine has.
using RowI16 = int16_t __attribute__((vector_size(2 * kTileRows)));
using RowI32 = int32_t __attribute__((vector_size(4 * kTileRows)));
using RowF32 = float __attribute__((vector_size(4 * kTileRows)));

inline void LoadHalves(const std::byte* p, float out[kTileRows]) {
  for (int r = 0; r < kTileRows; ++r) out[r] = base::F16ToF32(LoadAs<uint16_t>(p + 2 * r));
}

// What the codes of a group stand for, one vector per column.
struct GroupCodes {
  RowI16 column[packed::kGroup] = {};

  template <Layout kLayout>
  void Decode(const std::byte* codes) {
    constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
    AddBits<kShape.low_bits>(codes, 0);
    AddBits<kShape.high_bits>(codes + kShape.high_offset(), kShape.low_bits);
    for (RowI16& codes_of_column : column) {
      if constexpr (kShape.table) {
        for (int r = 0; r < kTileRows; ++r) codes_of_column[r] = tensor::kIQ4Values[codes_of_column[r]];
      } else if constexpr (kShape.low_bits == 8) {
        codes_of_column = codes_of_column << 8 >> 8;  // signed bytes
      } else {
        codes_of_column -= static_cast<int16_t>(kShape.offset);
      }
    }
  }

 private:
  // Byte i of a 32-bit element has the bits of columns 4 * j + i of 8 / kBits vectors j. They are moved `shift` up.
  template <int kBits>
  void AddBits(const std::byte* vectors, int shift) {
    for (int p = 0; p < kBits; ++p) {
      const auto words = LoadAs<RowI32>(vectors + p * packed::kVectorBytes);
      for (int q = 0; q < 8 / kBits; ++q) {
        const int j = packed::VectorOfPart(kBits, p, q);
        for (int i = 0; i < 4; ++i) {
          const RowI32 part = (words >> (8 * i + kBits * q)) & ((1 << kBits) - 1);
          column[4 * j + i] |= __builtin_convertvector(part << shift, RowI16);
        }
      }
    }
  }
};
template <>
inline void GroupCodes::AddBits<0>(const std::byte*, int) {}

// The scales of a block. Layouts with two levels have integer factors beside the floats; halves are 16 columns.
template <Layout kLayout>
struct BlockScales {
  static constexpr packed::Shape kShape = packed::ShapeOf(kLayout);

  float scale[kTileRows];
  float minimum[kTileRows] = {};  // with two levels: the scale of the minima
  packed::SubScaleRows<kShape.sub_scales> sub;

  explicit BlockScales(const std::byte* block) : sub(block + kShape.sub_scales_offset()) {
    LoadHalves(block, scale);
    if constexpr (kShape.minima) LoadHalves(block + kShape.minima_offset(), minimum);
  }

  // Factors of the scale and of the minimum for a half of group `k` of the block.
  int Factor(int k, int half, int row) const {
    if constexpr (!kShape.two_levels())
      return 1;
    else
      return static_cast<int8_t>(sub.scale[Index(k, half)][row]);
  }
  int MinFactor(int k, int half, int row) const {
    if constexpr (!kShape.two_levels() || !kShape.minima)
      return 1;
    else
      return sub.minimum[Index(k, half)][row];
  }

 private:
  static int Index(int k, int half) { return kShape.per16() ? 2 * k + half : k; }
};

// Calls fn.operator()<layout>() of an integer layout.
template <typename F>
void WithIntegerLayout(Layout layout, F fn) {
  switch (layout) {
    case Layout::kW4G32:
      return fn.template operator()<Layout::kW4G32>();
    case Layout::kW4G32M:
      return fn.template operator()<Layout::kW4G32M>();
    case Layout::kW8G32:
      return fn.template operator()<Layout::kW8G32>();
    case Layout::kW6T256:
      return fn.template operator()<Layout::kW6T256>();
    case Layout::kW5G32:
      return fn.template operator()<Layout::kW5G32>();
    case Layout::kW5G32M:
      return fn.template operator()<Layout::kW5G32M>();
    case Layout::kW2T256M:
      return fn.template operator()<Layout::kW2T256M>();
    case Layout::kW3T256:
      return fn.template operator()<Layout::kW3T256>();
    case Layout::kW4T256M:
      return fn.template operator()<Layout::kW4T256M>();
    case Layout::kW5T256M:
      return fn.template operator()<Layout::kW5T256M>();
    case Layout::kI4G32:
      return fn.template operator()<Layout::kI4G32>();
    case Layout::kI4T256:
      return fn.template operator()<Layout::kI4T256>();
    case Layout::kF32:
    case Layout::kF16:
    case Layout::kBF16:
      break;
  }
  PENG_CHECK(false);
}

}  // namespace peng::backend::cpu
