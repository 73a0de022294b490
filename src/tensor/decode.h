// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace peng::tensor {

// The values that the 4-bit codes of IQ4_NL and IQ4_XS stand for.
inline constexpr int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// One scalar decoder per format: the values of a row of `cols` values, cols a multiple of the format's block_values.
// They define the formats, so they are written for reading, not for speed. Byte order in files is little-endian.
void DecodeF32(const std::byte* row, int64_t cols, float* out);
void DecodeF16(const std::byte* row, int64_t cols, float* out);
void DecodeBF16(const std::byte* row, int64_t cols, float* out);
void DecodeQ4_0(const std::byte* row, int64_t cols, float* out);
void DecodeQ4_1(const std::byte* row, int64_t cols, float* out);
void DecodeQ5_0(const std::byte* row, int64_t cols, float* out);
void DecodeQ5_1(const std::byte* row, int64_t cols, float* out);
void DecodeQ8_0(const std::byte* row, int64_t cols, float* out);
void DecodeQ2_K(const std::byte* row, int64_t cols, float* out);
void DecodeQ3_K(const std::byte* row, int64_t cols, float* out);
void DecodeQ4_K(const std::byte* row, int64_t cols, float* out);
void DecodeQ5_K(const std::byte* row, int64_t cols, float* out);
void DecodeQ6_K(const std::byte* row, int64_t cols, float* out);
void DecodeIQ4_NL(const std::byte* row, int64_t cols, float* out);
void DecodeIQ4_XS(const std::byte* row, int64_t cols, float* out);

}  // namespace peng::tensor
