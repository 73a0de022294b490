// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/packed_codes.h"
#include "base/check.h"

namespace peng::backend::cpu {
namespace {

// The packers add one row to a tile of zeros. `in` is the row as its file holds it. Integer codes move four at a time.

void PackElements(const std::byte* in, int64_t cols, int row, int bytes, std::byte* tile) {
  for (int64_t c = 0; c < cols; ++c) std::memcpy(tile + (c * kTileRows + row) * bytes, in + c * bytes, bytes);
}

// A block of a file that packs to `kLayout`: where its float16 scale and minimum and its sub-scale bytes are, and the
// codes of columns 32 * g + 4 * j.. as the bytes of a word.
template <Layout kLayout>
struct FileBlock;

constexpr uint32_t kNibbles = 0x0F0F0F0F, kPairs = 0x03030303, kBits = 0x01010101;

// 16 bytes have codes 0..15 of a group in the low and 16..31 in the high nibbles.
uint32_t NibblesOf16(const std::byte* in, int j) {
  return (LoadAs<uint32_t>(in + j % 4 * 4) >> (j / 4 * 4)) & kNibbles;
}
// 32 bytes have the codes of an even group in the low and of the odd one after it in the high nibbles.
uint32_t NibblesOf32(const std::byte* in, int g, int j) {
  return (LoadAs<uint32_t>(in + g / 2 * 32 + 4 * j) >> (g % 2 * 4)) & kNibbles;
}
// 32 bytes have the bit pairs of four groups.
uint32_t PairsOf32(const std::byte* in, int g, int j) {
  return (LoadAs<uint32_t>(in + g / 4 * 32 + 4 * j) >> (g % 4 * 2)) & kPairs;
}
// 32 bytes have the bits of eight groups.
uint32_t BitsOf32(const std::byte* in, int g, int j) { return (LoadAs<uint32_t>(in + 4 * j) >> g) & kBits; }
// 4 bytes have the bits of a group, in the order of its columns: spreads four of them over a word.
uint32_t BitsOf4(const std::byte* in, int j) { return ((LoadAs<uint32_t>(in) >> (4 * j)) & 15) * 0x00204081 & kBits; }

// kCopied: bytes of codes that the layout has as the file has them, from kCodes on.
template <>
struct FileBlock<Layout::kW4G32> {
  static constexpr int kBytes = 18, kScale = 0, kCodes = 2, kCopied = 16;
  static uint32_t Codes(const std::byte* block, int, int j) { return NibblesOf16(block + 2, j); }
};

template <>
struct FileBlock<Layout::kI4G32> : FileBlock<Layout::kW4G32> {};

template <>
struct FileBlock<Layout::kW4G32M> {
  static constexpr int kBytes = 20, kScale = 0, kMinimum = 2, kCodes = 4, kCopied = 16;
  static uint32_t Codes(const std::byte* block, int, int j) { return NibblesOf16(block + 4, j); }
};

template <>
struct FileBlock<Layout::kW5G32> {
  static constexpr int kBytes = 22, kScale = 0;
  static uint32_t Codes(const std::byte* block, int, int j) {
    return NibblesOf16(block + 6, j) | BitsOf4(block + 2, j) << 4;
  }
};

template <>
struct FileBlock<Layout::kW5G32M> {
  static constexpr int kBytes = 24, kScale = 0, kMinimum = 2;
  static uint32_t Codes(const std::byte* block, int, int j) {
    return NibblesOf16(block + 8, j) | BitsOf4(block + 4, j) << 4;
  }
};

template <>
struct FileBlock<Layout::kW8G32> {
  static constexpr int kBytes = 34, kScale = 0, kCodes = 2, kCopied = 32;
  static uint32_t Codes(const std::byte* block, int, int j) { return LoadAs<uint32_t>(block + 2 + 4 * j); }
};

template <>
struct FileBlock<Layout::kW2T256M> {
  static constexpr int kBytes = 84, kScale = 80, kMinimum = 82, kSubScales = 0;
  static uint32_t Codes(const std::byte* block, int g, int j) { return PairsOf32(block + 16, g, j); }
};

template <>
struct FileBlock<Layout::kW3T256> {
  static constexpr int kBytes = 110, kScale = 108, kSubScales = 96;
  static uint32_t Codes(const std::byte* block, int g, int j) {
    return PairsOf32(block + 32, g, j) | BitsOf32(block, g, j) << 2;
  }
};

template <>
struct FileBlock<Layout::kW4T256M> {
  static constexpr int kBytes = 144, kScale = 0, kMinimum = 2, kSubScales = 4;
  static uint32_t Codes(const std::byte* block, int g, int j) { return NibblesOf32(block + 16, g, j); }
};

template <>
struct FileBlock<Layout::kW5T256M> {
  static constexpr int kBytes = 176, kScale = 0, kMinimum = 2, kSubScales = 4;
  static uint32_t Codes(const std::byte* block, int g, int j) {
    return NibblesOf32(block + 48, g, j) | BitsOf32(block + 16, g, j) << 4;
  }
};

template <>
struct FileBlock<Layout::kW6T256> {
  static constexpr int kBytes = 210, kScale = 208, kSubScales = 192;
  static uint32_t Codes(const std::byte* block, int g, int j) {
    const uint32_t bytes = LoadAs<uint32_t>(block + g / 4 * 64 + g % 2 * 32 + 4 * j);
    return ((bytes >> (g % 4 / 2 * 4)) & kNibbles) | PairsOf32(block + 128, g, j) << 4;
  }
};

template <>
struct FileBlock<Layout::kI4T256> {
  static constexpr int kBytes = 136, kScale = 0, kSubScales = 2;
  static uint32_t Codes(const std::byte* block, int g, int j) { return NibblesOf16(block + 8 + 16 * g, j); }
};

// Writes the low or high parts of a group's codes, kBits starting at bit `shift`, as packed.h has them.
template <int kBits>
void PackBits(const uint32_t codes[8], int shift, int row, std::byte* vectors) {
  constexpr uint32_t kMask = 0x01010101U * ((1U << kBits) - 1);
  for (int p = 0; p < kBits; ++p) {
    uint32_t word = 0;
    for (int q = 0; q < 8 / kBits; ++q) {
      word |= ((codes[packed::VectorOfPart(kBits, p, q)] >> shift) & kMask) << (kBits * q);
    }
    std::memcpy(vectors + p * packed::kVectorBytes + 4 * row, &word, sizeof word);
  }
}

template <Layout kLayout>
void PackBlock(const std::byte* in, int row, std::byte* block) {
  using File = FileBlock<kLayout>;
  constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  std::memcpy(block + 2 * row, in + File::kScale, 2);
  if constexpr (kShape.minima) {
    std::byte* minimum = block + kShape.minima_offset() + 2 * row;
    std::memcpy(minimum, in + File::kMinimum, 2);
    if (kShape.two_levels()) minimum[1] ^= std::byte{0x80};  // files have what is subtracted
  }
  if constexpr (kShape.two_levels()) {
    for (int k = 0; k < kShape.sub_scale_bytes(); ++k)
      block[kShape.sub_scales_offset() + k * kTileRows + row] = in[File::kSubScales + k];
  }
  for (int g = 0; g < kShape.groups(); ++g) {
    uint32_t codes[8];
    for (int j = 0; j < 8; ++j) codes[j] = File::Codes(in, g, j);
    std::byte* group = block + kShape.CodesAt(g);
    PackBits<kShape.low_bits>(codes, 0, row, group);
    if constexpr (kShape.high_bits != 0)
      PackBits<kShape.high_bits>(codes, kShape.low_bits, row, group + kShape.high_offset());
  }
}

// Four words of each of four rows, stride_bytes apart, to their places in four vectors.
void TransposeWords(const std::byte* in, int64_t stride_bytes, std::byte* vectors) {
  using Words = uint32_t __attribute__((vector_size(16)));
  const auto a = LoadAs<Words>(in), b = LoadAs<Words>(in + stride_bytes);
  const auto c = LoadAs<Words>(in + 2 * stride_bytes), d = LoadAs<Words>(in + 3 * stride_bytes);
  const Words ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Words cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Words out[4] = {
      __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
      __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(vectors + i * packed::kVectorBytes, &out[i], sizeof out[i]);
}

// All rows of a tile side by side, where codes are only moved: each line of the tile is written once and at once. Rows
// are too many streams for the hardware to read ahead.
template <Layout kLayout>
void PackCopiedTile(const std::byte* in, int64_t stride_bytes, int64_t num_blocks, std::byte* tile) {
  using File = FileBlock<kLayout>;
  constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  static_assert(kShape.groups() == 1 && File::kCopied * kTileRows == kShape.block_bytes() - kShape.CodesAt(0));
  constexpr int kAhead = 4 * packed::kVectorBytes;
  for (int64_t b = 0; b < num_blocks; ++b, in += File::kBytes, tile += kShape.block_bytes()) {
    for (int r = 0; r < kTileRows; ++r) {
      const std::byte* row = in + r * stride_bytes;
      __builtin_prefetch(row + kAhead);
      std::memcpy(tile + 2 * r, row + File::kScale, 2);
      if constexpr (kShape.minima) std::memcpy(tile + kShape.minima_offset() + 2 * r, row + File::kMinimum, 2);
    }
    for (int r = 0; r < kTileRows; r += 4) {
      const std::byte* codes = in + r * stride_bytes + File::kCodes;
      for (int i = 0; i < File::kCopied / 16; ++i) {
        TransposeWords(codes + 16 * i, stride_bytes, tile + kShape.CodesAt(0) + 4 * i * packed::kVectorBytes + 4 * r);
      }
    }
  }
}

void PackRow(Layout layout, const std::byte* in, int64_t cols, int row, std::byte* tile) {
  const LayoutInfo& info = Info(layout);
  if (!info.quantized) return PackElements(in, cols, row, info.block_bytes / kTileRows, tile);
  WithIntegerLayout(layout, [&]<Layout kLayout>() {
    for (int64_t b = 0; b < cols / info.block_cols; ++b)
      PackBlock<kLayout>(in + b * FileBlock<kLayout>::kBytes, row, tile + b * info.block_bytes);
  });
}

}  // namespace

void PackTile(Layout layout, const tensor::Weight& w, int64_t row_begin, std::byte* out) {
  PENG_CHECK(w.format == Info(layout).file_format && row_begin >= 0);
  if (w.rows - row_begin >= kTileRows && Info(layout).quantized) {
    bool done = false;
    WithIntegerLayout(layout, [&]<Layout kLayout>() {
      if constexpr (requires { FileBlock<kLayout>::kCopied; }) {
        PackCopiedTile<kLayout>(w.Row(row_begin), w.planes[0].stride_bytes, w.cols / Info(layout).block_cols, out);
        done = true;
      }
    });
    if (done) return;
  }
  std::memset(out, 0, static_cast<size_t>(PackedTileBytes(layout, w.cols)));
  const int rows = static_cast<int>(std::clamp<int64_t>(w.rows - row_begin, 0, kTileRows));
  for (int r = 0; r < rows; ++r) PackRow(layout, w.Row(row_begin + r), w.cols, r, out);
}

}  // namespace peng::backend::cpu
