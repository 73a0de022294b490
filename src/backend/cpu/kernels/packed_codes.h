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
T LoadAs(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

inline void LoadHalves(const std::byte* p, float out[kTileRows]) {
  for (int r = 0; r < kTileRows; ++r) out[r] = base::F16ToF32(LoadAs<uint16_t>(p + 2 * r));
}

// Codes of 4 vectors: low nibbles columns 4j.., high nibbles 16 + 4j... `bias` is subtracted.
inline void DecodeNibbles(const std::byte* vectors, int bias, int16_t codes[packed::kGroup][kTileRows]) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(vectors);
  for (int c = 0; c < 16; ++c) {
    for (int r = 0; r < kTileRows; ++r) {
      const int byte = bytes[c / 4 * packed::kVectorBytes + 4 * r + c % 4];
      codes[c][r] = static_cast<int16_t>((byte & 15) - bias);
      codes[c + 16][r] = static_cast<int16_t>((byte >> 4) - bias);
    }
  }
}

// kMaxSum: how many products of a code and an int8 activation (|a| <= 127) an int16 sum can hold.

struct W4Codes {
  static constexpr bool kHasMinima = false, kHasSubScales = false;
  static constexpr int kMaxSum = 32;  // 32 * 8 * 127 = 32512
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * packed::kW4GroupBytes; }
  static void Scales(const std::byte* tile, int64_t g, float out[kTileRows]) { LoadHalves(Group(tile, g), out); }
  static void Decode(const std::byte* group, int16_t codes[packed::kGroup][kTileRows]) {
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
  static void Decode(const std::byte* group, int16_t codes[packed::kGroup][kTileRows]) {
    DecodeNibbles(group + packed::kW4MCodesOffset, 0, codes);
  }
};

struct W8Codes {
  static constexpr bool kHasMinima = false, kHasSubScales = false;
  static constexpr int kMaxSum = 2;  // 2 * 128 * 127 = 32512
  static const std::byte* Group(const std::byte* tile, int64_t g) { return tile + g * packed::kW8GroupBytes; }
  static void Scales(const std::byte* tile, int64_t g, float out[kTileRows]) { LoadHalves(Group(tile, g), out); }
  static void Decode(const std::byte* group, int16_t codes[packed::kGroup][kTileRows]) {
    const auto* bytes = reinterpret_cast<const int8_t*>(group + packed::kW8CodesOffset);
    for (int c = 0; c < packed::kGroup; ++c)
      for (int r = 0; r < kTileRows; ++r) codes[c][r] = bytes[c / 4 * packed::kVectorBytes + 4 * r + c % 4];
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
  static void Decode(const std::byte* group, int16_t codes[packed::kGroup][kTileRows]) {
    DecodeNibbles(group + packed::kW6LowOffset, 32, codes);
    const auto* high = reinterpret_cast<const uint8_t*>(group + packed::kW6HighOffset);
    for (int c = 0; c < packed::kGroup; ++c) {
      for (int r = 0; r < kTileRows; ++r) {
        const int pair = (high[c / 16 * packed::kVectorBytes + 4 * r + c % 4] >> (c % 16 / 4 * 2)) & 3;
        codes[c][r] = static_cast<int16_t>(codes[c][r] + 16 * pair);
      }
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
