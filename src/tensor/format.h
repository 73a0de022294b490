// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace peng::tensor {

// What the bytes of a weight in a file mean. A format is one row of the table in format.cc plus one scalar decoder,
// which is the format's definition: every packed layout and kernel is tested against it.
enum class Format : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ8_0,
  kQ6_K,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kIQ4_NL,
  kIQ4_XS,
};

struct FormatInfo {
  Format format;
  std::string_view name;  // "Q4_0", as GGUF and users write it
  int block_values;       // consecutive values of a row that are stored together (1 for float formats)
  int block_bytes;        // bytes of such a block
  bool quantized;         // integer codes with scales
  // Writes the `cols` values of one row; cols is a multiple of block_values.
  void (*decode_row)(const std::byte* row, int64_t cols, float* out);
};

const FormatInfo& Info(Format format);
std::span<const FormatInfo> AllFormats();
std::optional<Format> FormatFromName(std::string_view name);

// Bytes of one row of `cols` values; cols is a multiple of the format's block_values.
int64_t RowBytes(Format format, int64_t cols);

}  // namespace peng::tensor
