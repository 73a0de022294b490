// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/kernel.h"
#include "backend/cpu/kernels/packed.h"
#include "base/half.h"

// Scalar access to packed integer layouts, one struct per layout, for code that is compiled with the baseline flags
// (unpacking and the portable kernels). A group is 32 columns of 16 rows.
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

// Codes of a group, one vector per column.
struct GroupCodes {
  RowI16 column[packed::kGroup];
};

inline void LoadHalves(const std::byte* p, float out[kTileRows]) {
  for (int r = 0; r < kTileRows; ++r) out[r] = base::F16ToF32(LoadAs<uint16_t>(p + 2 * r));
}

// Byte i of the 32-bit elements of vector j belongs to column 4j + i, whole or as two nibbles.
inline void DecodeNibbles(const std::byte* vectors, int16_t bias, GroupCodes& codes) {
  for (int j = 0; j < 4; ++j) {
    const auto words = LoadAs<RowI32>(vectors + j * packed::kVectorBytes);
    for (int i = 0; i < 4; ++i) {
      codes.column[4 * j + i] = __builtin_convertvector((words >> (8 * i)) & 15, RowI16) - bias;
      codes.column[16 + 4 * j + i] = __builtin_convertvector((words >> (8 * i + 4)) & 15, RowI16) - bias;
    }
  }
}

// kMaxSum: how many products of a code and an int8 activation (|a| <= 127) an int16 sum can hold.

struct W4Codes {
  static constexpr bool kHasMinima = false, kHasSubScales = false;
  static constexpr int kMaxSum = 16;  // 16 * 8 * 127 = 16256; twice as many fit, but compilers unroll 16
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * packed::kW4GroupBytes; }
  static void Scales(const std::byte* tile, int64_t g, float out[kTileRows]) { LoadHalves(Group(tile, g), out); }
  static void Decode(const std::byte* group, GroupCodes& codes) {
    DecodeNibbles(group + packed::kW4CodesOffset, 8, codes);
  }
};

struct W4MCodes {
  static constexpr bool kHasMinima = true, kHasSubScales = false;
  static constexpr int kMaxSum = 16;  // 16 * 15 * 127 = 30480
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * packed::kW4MGroupBytes; }
  static void Scales(const std::byte* tile, int64_t g, float out[kTileRows]) { LoadHalves(Group(tile, g), out); }
  static void Minima(const std::byte* group, float out[kTileRows]) {
    LoadHalves(group + packed::kW4MMinimaOffset, out);
  }
  static void Decode(const std::byte* group, GroupCodes& codes) {
    DecodeNibbles(group + packed::kW4MCodesOffset, 0, codes);
  }
};

struct W8Codes {
  static constexpr bool kHasMinima = false, kHasSubScales = false;
  static constexpr int kMaxSum = 2;  // 2 * 128 * 127 = 32512
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * packed::kW8GroupBytes; }
  static void Scales(const std::byte* tile, int64_t g, float out[kTileRows]) { LoadHalves(Group(tile, g), out); }
  static void Decode(const std::byte* group, GroupCodes& codes) {
    for (int j = 0; j < 8; ++j) {
      const auto words = LoadAs<RowI32>(group + packed::kW8CodesOffset + j * packed::kVectorBytes);
      for (int i = 0; i < 4; ++i)
        codes.column[4 * j + i] = __builtin_convertvector((words << (24 - 8 * i)) >> 24, RowI16);
    }
  }
};

struct W6Codes {
  static constexpr bool kHasMinima = false, kHasSubScales = true;
  static constexpr int kMaxSum = 8;  // 8 * 32 * 127 = 32512
  static const std::byte* Block(const std::byte* tile, int64_t g) { return tile + g / 8 * packed::kW6BlockBytes; }
  static const std::byte* Group(const std::byte* tile, int64_t g) {
    return Block(tile, g) + packed::kW6GroupsOffset + g % 8 * packed::kW6GroupBytes;
  }
  static void Scales(const std::byte* tile, int64_t g, float out[kTileRows]) { LoadHalves(Block(tile, g), out); }
  // The scale of columns 16 * half.. of the group.
  static int SubScale(const std::byte* group, int half, int row) {
    return static_cast<int8_t>(group[half * kTileRows + row]);
  }
  static void Decode(const std::byte* group, GroupCodes& codes) {
    DecodeNibbles(group + packed::kW6LowOffset, 32, codes);
    for (int p = 0; p < 2; ++p) {
      const auto words = LoadAs<RowI32>(group + packed::kW6HighOffset + p * packed::kVectorBytes);
      for (int q = 0; q < 4; ++q)
        for (int i = 0; i < 4; ++i)
          codes.column[16 * p + 4 * q + i] += __builtin_convertvector(((words >> (8 * i + 2 * q)) & 3) << 4, RowI16);
    }
  }
};

template <Layout>
struct CodesOfLayout;
template <>
struct CodesOfLayout<Layout::kW4G32> {
  using Type = W4Codes;
};
template <>
struct CodesOfLayout<Layout::kW4G32M> {
  using Type = W4MCodes;
};
template <>
struct CodesOfLayout<Layout::kW8G32> {
  using Type = W8Codes;
};
template <>
struct CodesOfLayout<Layout::kW6T256> {
  using Type = W6Codes;
};
template <Layout kLayout>
using CodesOf = typename CodesOfLayout<kLayout>::Type;

}  // namespace peng::backend::cpu
