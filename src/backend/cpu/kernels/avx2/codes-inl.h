// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/avx2/vectors-inl.h"
#include "backend/cpu/kernels/packed.h"
#include "tensor/decode.h"

// Packed codes to one byte per code, for 8 rows: `codes` are a group's codes, 32 bytes further for rows 8..15.
//
namespace peng::backend::cpu::avx2 {
// Codes of up to 7 bits: vectors 4 * kPart .. 4 * kPart + 3, unsigned.
template <int kLowBits, int kHighBits>
struct SmallCodes {
  static constexpr int kHigh = packed::Shape{.low_bits = kLowBits}.high_offset();

  template <int kPart>
  [[gnu::always_inline]] static void Unpack(const std::byte* codes, __m256i v[4]) {
    Unroll<4>([&](auto j) {
      if constexpr (kLowBits == 4) {
        const __m256i raw = Load(codes + j * packed::kVectorBytes);
        v[j] = kPart == 0 ? LowNibbles(raw) : HighNibbles(raw);
      } else {
        v[j] = MoveBits<2, 2 * j, 0>(Load(codes + kPart * packed::kVectorBytes));
      }
    });
    if constexpr (kHighBits != 0) {
      // A vector holds the high bits of 8 / kHighBits vectors of codes.
      const __m256i raw = Load(codes + kHigh + (kHighBits == 2 ? kPart * packed::kVectorBytes : 0));
      constexpr int kFrom = kHighBits == 2 ? 0 : 4 * kPart;
      Unroll<4>(
          [&](auto j) { v[j] = _mm256_or_si256(v[j], MoveBits<kHighBits, kFrom + kHighBits * j, kLowBits>(raw)); });
    }
  }
};

// Codes whose values need 8 bits are split: value + 128 = 16 * high + low. Both parts are 4-bit, so that eight byte dot
// products can be added in int16, which takes fewer multiplications than widening every product to 32 bits.
struct SplitVector {
  __m256i low, high;
};

struct SignedBytes {
  template <int j>
  [[gnu::always_inline]] static SplitVector Unpack(const std::byte* codes) {
    const __m256i raw = _mm256_xor_si256(Load(codes + j * packed::kVectorBytes), _mm256_set1_epi8(-128));
    return {LowNibbles(raw), HighNibbles(raw)};
  }
};

// Entry i of the table plus 128, shifted right and cut to a nibble; in both halves of a vector.
template <int kShift>
inline __m256i TablePart() {
  alignas(16) static constexpr auto kPart = [] {
    struct {
      uint8_t byte[16];
    } part{};
    for (int i = 0; i < 16; ++i) part.byte[i] = static_cast<uint8_t>(((tensor::kIQ4Values[i] + 128) >> kShift) & 15);
    return part;
  }();
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(kPart.byte)));
}

struct TableNibbles {
  template <int j>
  [[gnu::always_inline]] static SplitVector Unpack(const std::byte* codes) {
    const __m256i raw = Load(codes + j % 4 * packed::kVectorBytes);
    const __m256i code = j < 4 ? LowNibbles(raw) : HighNibbles(raw);
    return {_mm256_shuffle_epi8(TablePart<0>(), code), _mm256_shuffle_epi8(TablePart<4>(), code)};
  }
};

}  // namespace peng::backend::cpu::avx2
