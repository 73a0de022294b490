// SPDX-License-Identifier: Apache-2.0
#include "tensor/decode.h"

#include <bit>
#include <cstring>

#include "base/half.h"

namespace peng::tensor {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read in place");

constexpr int kSuperBlock = 256;  // values of a block of the K formats

uint8_t U8(const std::byte* p) { return static_cast<uint8_t>(*p); }
int8_t I8(const std::byte* p) { return static_cast<int8_t>(*p); }

uint16_t U16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

uint32_t U32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

float Half(const std::byte* p) { return base::F16ToF32(U16(p)); }

// Calls block(bytes, out) for each block of the row.
template <typename F>
void ForBlocks(const std::byte* row, int64_t cols, int block_values, int block_bytes, float* out, F&& block) {
  for (int64_t c = 0; c < cols; c += block_values, row += block_bytes, out += block_values) block(row, out);
}

// The 6-bit scale and minimum of group `j` (0..7) of Q4_K and Q5_K: the first four lie in the low bits of bytes 0..3
// and 4..7; the others have their low nibbles in bytes 8..11 and their high bits above the first four.
struct ScaleMin {
  int scale;
  int min;
};
ScaleMin GroupScaleMin(const std::byte* scales, int j) {
  if (j < 4) return {U8(scales + j) & 63, U8(scales + j + 4) & 63};
  const int low = U8(scales + j + 4);
  return {(low & 15) | (U8(scales + j - 4) >> 6) << 4, (low >> 4) | (U8(scales + j) >> 6) << 4};
}

// The signed 6-bit scale of group `j` (0..15) of Q3_K.
int GroupScaleQ3_K(const std::byte* scales, int j) {
  const int low = j < 8 ? U8(scales + j) & 15 : U8(scales + j - 8) >> 4;
  const int high = (U8(scales + 8 + j % 4) >> (2 * (j / 4))) & 3;
  return (low | high << 4) - 32;
}

}  // namespace

void DecodeF32(const std::byte* row, int64_t cols, float* out) {
  std::memcpy(out, row, static_cast<size_t>(cols) * sizeof(float));
}

void DecodeF16(const std::byte* row, int64_t cols, float* out) {
  for (int64_t c = 0; c < cols; ++c) out[c] = Half(row + 2 * c);
}

void DecodeBF16(const std::byte* row, int64_t cols, float* out) {
  for (int64_t c = 0; c < cols; ++c) out[c] = base::BF16ToF32(U16(row + 2 * c));
}

// 32 values: f16 scale, 16 bytes whose low nibbles are codes 0..15 and high nibbles codes 16..31.
void DecodeQ4_0(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, 32, 18, out, [](const std::byte* b, float* y) {
    const float d = Half(b);
    for (int i = 0; i < 16; ++i) {
      y[i] = d * static_cast<float>((U8(b + 2 + i) & 15) - 8);
      y[i + 16] = d * static_cast<float>((U8(b + 2 + i) >> 4) - 8);
    }
  });
}

// As Q4_0, unsigned codes with an f16 minimum after the scale.
void DecodeQ4_1(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, 32, 20, out, [](const std::byte* b, float* y) {
    const float d = Half(b), m = Half(b + 2);
    for (int i = 0; i < 16; ++i) {
      y[i] = d * static_cast<float>(U8(b + 4 + i) & 15) + m;
      y[i + 16] = d * static_cast<float>(U8(b + 4 + i) >> 4) + m;
    }
  });
}

// 32 values: f16 scale, 32 fifth bits, nibbles as in Q4_0.
void DecodeQ5_0(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, 32, 22, out, [](const std::byte* b, float* y) {
    const float d = Half(b);
    const uint32_t high = U32(b + 2);
    for (int i = 0; i < 16; ++i) {
      const int low = U8(b + 6 + i);
      y[i] = d * static_cast<float>(static_cast<int>((low & 15) | ((high >> i) & 1) << 4) - 16);
      y[i + 16] = d * static_cast<float>(static_cast<int>((low >> 4) | ((high >> (i + 16)) & 1) << 4) - 16);
    }
  });
}

// As Q5_0, unsigned codes with an f16 minimum after the scale.
void DecodeQ5_1(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, 32, 24, out, [](const std::byte* b, float* y) {
    const float d = Half(b), m = Half(b + 2);
    const uint32_t high = U32(b + 4);
    for (int i = 0; i < 16; ++i) {
      const int low = U8(b + 8 + i);
      y[i] = d * static_cast<float>((low & 15) | ((high >> i) & 1) << 4) + m;
      y[i + 16] = d * static_cast<float>((low >> 4) | ((high >> (i + 16)) & 1) << 4) + m;
    }
  });
}

// 32 values: f16 scale, 32 signed bytes.
void DecodeQ8_0(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, 32, 34, out, [](const std::byte* b, float* y) {
    const float d = Half(b);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(I8(b + 2 + i));
  });
}

// 256 values: 16 bytes of 4-bit scale and minimum per 16 values, 64 bytes of 2-bit codes (128 values per 32 bytes), f16
// scale of the scales, f16 scale of the minima.
void DecodeQ2_K(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, kSuperBlock, 84, out, [](const std::byte* b, float* y) {
    const float d = Half(b + 80), dmin = Half(b + 82);
    for (int i = 0; i < kSuperBlock; ++i) {
      const int group = i / 16, half = i / 128, shift = i % 128 / 32 * 2;
      const int code = (U8(b + 16 + half * 32 + i % 32) >> shift) & 3;
      const float scale = d * static_cast<float>(U8(b + group) & 15);
      const float min = dmin * static_cast<float>(U8(b + group) >> 4);
      y[i] = scale * static_cast<float>(code) - min;
    }
  });
}

// 256 values: 32 bytes of third bits (set: nothing is subtracted), 64 bytes of 2-bit codes as in Q2_K, 12 bytes of
// 6-bit scales per 16 values, f16 scale.
void DecodeQ3_K(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, kSuperBlock, 110, out, [](const std::byte* b, float* y) {
    const float d = Half(b + 108);
    for (int i = 0; i < kSuperBlock; ++i) {
      const int half = i / 128, shift = i % 128 / 32 * 2;
      const int low = (U8(b + 32 + half * 32 + i % 32) >> shift) & 3;
      const int high = (U8(b + i % 32) >> (i / 32)) & 1;
      const float scale = d * static_cast<float>(GroupScaleQ3_K(b + 96, i / 16));
      y[i] = scale * static_cast<float>(low - (high ? 0 : 4));
    }
  });
}

// 256 values: f16 scale of the scales, f16 scale of the minima, 12 bytes of scales and minima per 32 values, 128 bytes
// of nibbles: 32 bytes have the codes of 64 values, low nibbles first.
void DecodeQ4_K(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, kSuperBlock, 144, out, [](const std::byte* b, float* y) {
    const float d = Half(b), dmin = Half(b + 2);
    for (int i = 0; i < kSuperBlock; ++i) {
      const ScaleMin g = GroupScaleMin(b + 4, i / 32);
      const int code = (U8(b + 16 + i / 64 * 32 + i % 32) >> (i % 64 / 32 * 4)) & 15;
      y[i] = d * static_cast<float>(g.scale) * static_cast<float>(code) - dmin * static_cast<float>(g.min);
    }
  });
}

// As Q4_K with 32 bytes of fifth bits before the nibbles: bit i / 32 of byte i % 32.
void DecodeQ5_K(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, kSuperBlock, 176, out, [](const std::byte* b, float* y) {
    const float d = Half(b), dmin = Half(b + 2);
    for (int i = 0; i < kSuperBlock; ++i) {
      const ScaleMin g = GroupScaleMin(b + 4, i / 32);
      const int low = (U8(b + 48 + i / 64 * 32 + i % 32) >> (i % 64 / 32 * 4)) & 15;
      const int code = low | ((U8(b + 16 + i % 32) >> (i / 32)) & 1) << 4;
      y[i] = d * static_cast<float>(g.scale) * static_cast<float>(code) - dmin * static_cast<float>(g.min);
    }
  });
}

// 256 values: 128 bytes of low nibbles, 64 bytes of high 2-bit pairs, 16 signed byte scales per 16 values, f16 scale.
void DecodeQ6_K(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, kSuperBlock, 210, out, [](const std::byte* b, float* y) {
    const float d = Half(b + 208);
    for (int i = 0; i < kSuperBlock; ++i) {
      const int half = i / 128, quarter = i % 128 / 32;
      const int low = (U8(b + half * 64 + i % 64) >> (quarter / 2 * 4)) & 15;
      const int high = (U8(b + 128 + half * 32 + i % 32) >> (quarter * 2)) & 3;
      const float scale = d * static_cast<float>(I8(b + 192 + i / 16));
      y[i] = scale * static_cast<float>((low | high << 4) - 32);
    }
  });
}

// As Q4_0 with codes into a table.
void DecodeIQ4_NL(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, 32, 18, out, [](const std::byte* b, float* y) {
    const float d = Half(b);
    for (int i = 0; i < 16; ++i) {
      y[i] = d * static_cast<float>(kIQ4Values[U8(b + 2 + i) & 15]);
      y[i + 16] = d * static_cast<float>(kIQ4Values[U8(b + 2 + i) >> 4]);
    }
  });
}

// 256 values: f16 scale, high 2 bits of 8 scales, low 4 bits of 8 scales, nibbles of 32 values per 16 bytes as in
// IQ4_NL.
void DecodeIQ4_XS(const std::byte* row, int64_t cols, float* out) {
  ForBlocks(row, cols, kSuperBlock, 136, out, [](const std::byte* b, float* y) {
    const float d = Half(b);
    for (int i = 0; i < kSuperBlock; ++i) {
      const int group = i / 32;
      const int low = (U8(b + 4 + group / 2) >> (group % 2 * 4)) & 15;
      const int high = (U16(b + 2) >> (2 * group)) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const int code = (U8(b + 8 + group * 16 + i % 16) >> (i % 32 / 16 * 4)) & 15;
      y[i] = scale * static_cast<float>(kIQ4Values[code]);
    }
  });
}

}  // namespace peng::tensor
