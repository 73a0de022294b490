// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/kernels/layout.h"
#include "tensor/weight.h"

// Random weights for the tests and benches of this folder.
namespace peng::backend::cpu {

// Where the float16 numbers of a block are.
inline std::vector<int> HalvesOf(tensor::Format format) {
  switch (format) {
    case tensor::Format::kF32:
    case tensor::Format::kBF16:
      return {};
    case tensor::Format::kF16:
    case tensor::Format::kQ4_0:
    case tensor::Format::kQ5_0:
    case tensor::Format::kQ8_0:
    case tensor::Format::kIQ4_NL:
    case tensor::Format::kIQ4_XS:
      return {0};
    case tensor::Format::kQ4_1:
    case tensor::Format::kQ5_1:
    case tensor::Format::kQ4_K:
    case tensor::Format::kQ5_K:
      return {0, 2};
    case tensor::Format::kQ2_K:
      return {80, 82};
    case tensor::Format::kQ3_K:
      return {108};
    case tensor::Format::kQ6_K:
      return {208};
  }
  return {};
}

// Rows of random file bits in `format`: every code pattern occurs; scales are finite, below 2 in magnitude; elements of
// float formats lie in magnitude between 2^-15 and 2, so that all of them count in a sum.
inline tensor::Weight RandomWeight(tensor::Format format, int64_t rows, int64_t cols, uint32_t seed) {
  const tensor::FormatInfo& info = tensor::Info(format);
  const int64_t row_bytes = tensor::RowBytes(format, cols);
  auto bytes = std::make_shared<std::vector<std::byte>>(rows * row_bytes);
  std::mt19937 random(seed);
  for (std::byte& b : *bytes) b = static_cast<std::byte>(random());
  for (int64_t at = 0; at < rows * row_bytes; at += info.block_bytes) {
    std::byte* block = bytes->data() + at;
    if (format == tensor::Format::kF32) block[3] = (block[3] & std::byte{0x83}) | std::byte{0x3C};
    if (format == tensor::Format::kBF16) block[1] = (block[1] & std::byte{0x83}) | std::byte{0x3C};
    for (int half : HalvesOf(format)) block[half + 1] &= std::byte{0xBF};  // exponent below 16: magnitude below 2
  }
  tensor::Weight w;
  w.name = "random";
  w.rows = rows;
  w.cols = cols;
  w.format = format;
  w.planes = {{bytes->data(), row_bytes, row_bytes}};
  w.owner = bytes;
  return w;
}

// 64-byte aligned memory, zeros.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes / 64 + 1) * 64)), std::free) {
    std::memset(data_.get(), 0, bytes);
  }
  std::byte* data() { return data_.get(); }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> data_;
};

// All tiles of `w`.
inline AlignedBytes PackAll(Layout layout, const tensor::Weight& w) {
  const int64_t tile_bytes = PackedTileBytes(layout, w.cols), tiles = (w.rows + kTileRows - 1) / kTileRows;
  AlignedBytes packed(tiles * tile_bytes);
  for (int64_t t = 0; t < tiles; ++t) PackTile(layout, w, t * kTileRows, packed.data() + t * tile_bytes);
  return packed;
}

}  // namespace peng::backend::cpu
