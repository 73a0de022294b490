// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/layout.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "backend/cpu/kernels/packed.h"
#include "backend/cpu/kernels/packed_codes.h"
#include "base/check.h"
#include "base/half.h"

namespace peng::backend::cpu {
namespace {

using tensor::Format;

constexpr LayoutInfo kLayouts[] = {
    {Layout::kF32, "f32", Format::kF32, 1, 64, false},
    {Layout::kF16, "f16", Format::kF16, 1, 32, false},
    {Layout::kBF16, "bf16", Format::kBF16, 1, 32, false},
    {Layout::kW4G32, "w4g32", Format::kQ4_0, packed::kGroup, packed::kW4GroupBytes, true},
    {Layout::kW4G32M, "w4g32m", Format::kQ4_1, packed::kGroup, packed::kW4MGroupBytes, true},
    {Layout::kW8G32, "w8g32", Format::kQ8_0, packed::kGroup, packed::kW8GroupBytes, true},
    {Layout::kW6T256, "w6t256", Format::kQ6_K, packed::kW6BlockCols, packed::kW6BlockBytes, true},
};

consteval bool RowsAreAtTheirIndex() {
  for (size_t i = 0; i < std::size(kLayouts); ++i)
    if (static_cast<size_t>(kLayouts[i].layout) != i) return false;
  return true;
}
static_assert(RowsAreAtTheirIndex());

// The packers add one row to a tile of zeros. `in` is the row as its file holds it. Integer codes move four at a time.

void PackElements(const std::byte* in, int64_t cols, int row, int bytes, std::byte* tile) {
  for (int64_t c = 0; c < cols; ++c) std::memcpy(tile + (c * kTileRows + row) * bytes, in + c * bytes, bytes);
}

// Copies 4 * count bytes of one row to its places in `count` vectors.
void PackVectors(const std::byte* in, int count, int row, std::byte* vectors) {
  for (int j = 0; j < count; ++j) std::memcpy(vectors + j * packed::kVectorBytes + 4 * row, in + 4 * j, 4);
}

// The 16 bytes of a Q4 block have codes 0..15 in the low and 16..31 in the high nibbles, as the vectors do.
void PackQ4_0(const std::byte* in, int64_t cols, int row, std::byte* tile) {
  for (int64_t g = 0; g < cols / 32; ++g, in += 18, tile += packed::kW4GroupBytes) {
    std::memcpy(tile + 2 * row, in, 2);
    PackVectors(in + 2, 4, row, tile + packed::kW4CodesOffset);
  }
}

void PackQ4_1(const std::byte* in, int64_t cols, int row, std::byte* tile) {
  for (int64_t g = 0; g < cols / 32; ++g, in += 20, tile += packed::kW4MGroupBytes) {
    std::memcpy(tile + 2 * row, in, 2);
    std::memcpy(tile + packed::kW4MMinimaOffset + 2 * row, in + 2, 2);
    PackVectors(in + 4, 4, row, tile + packed::kW4MCodesOffset);
  }
}

void PackQ8_0(const std::byte* in, int64_t cols, int row, std::byte* tile) {
  for (int64_t g = 0; g < cols / 32; ++g, in += 34, tile += packed::kW8GroupBytes) {
    std::memcpy(tile + 2 * row, in, 2);
    PackVectors(in + 2, 8, row, tile + packed::kW8CodesOffset);
  }
}

// Group `g` (0..7) of a Q6_K block: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 scales, d.
void PackGroupQ6_K(const std::byte* block, int g, int row, std::byte* group) {
  const int half = g / 4, quarter = g % 4;
  const std::byte* low_in = block + half * 64 + quarter % 2 * 32;
  const std::byte* high_in = block + 128 + half * 32;
  const auto low = [&](int j) { return (LoadAs<uint32_t>(low_in + 4 * j) >> (quarter / 2 * 4)) & 0x0F0F0F0FU; };
  const auto high = [&](int j) { return (LoadAs<uint32_t>(high_in + 4 * j) >> (quarter * 2)) & 0x03030303U; };
  uint32_t words[6];
  for (int j = 0; j < 4; ++j) words[j] = low(j) | low(j + 4) << 4;
  for (int p = 0; p < 2; ++p)
    words[4 + p] = high(4 * p) | high(4 * p + 1) << 2 | high(4 * p + 2) << 4 | high(4 * p + 3) << 6;
  PackVectors(reinterpret_cast<const std::byte*>(words), 6, row, group + packed::kW6LowOffset);
  for (int s = 0; s < 2; ++s) group[kTileRows * s + row] = block[192 + 2 * g + s];
}

void PackQ6_K(const std::byte* in, int64_t cols, int row, std::byte* tile) {
  for (int64_t b = 0; b < cols / 256; ++b, in += 210, tile += packed::kW6BlockBytes) {
    std::memcpy(tile + 2 * row, in + 208, 2);
    for (int g = 0; g < 8; ++g) PackGroupQ6_K(in, g, row, tile + packed::kW6GroupsOffset + g * packed::kW6GroupBytes);
  }
}

void PackRow(Layout layout, const std::byte* in, int64_t cols, int row, std::byte* tile) {
  switch (layout) {
    case Layout::kF32:
      return PackElements(in, cols, row, 4, tile);
    case Layout::kF16:
    case Layout::kBF16:
      return PackElements(in, cols, row, 2, tile);
    case Layout::kW4G32:
      return PackQ4_0(in, cols, row, tile);
    case Layout::kW4G32M:
      return PackQ4_1(in, cols, row, tile);
    case Layout::kW8G32:
      return PackQ8_0(in, cols, row, tile);
    case Layout::kW6T256:
      return PackQ6_K(in, cols, row, tile);
  }
}

// The values of group `g`, out[c][row]. Codes are signed where the layout has no minimum.
template <typename Codes>
void UnpackGroup(const std::byte* tile, int64_t g, float* out) {
  GroupCodes codes;
  float scales[kTileRows], minima[kTileRows] = {};
  const std::byte* group = Codes::Group(tile, g);
  Codes::Decode(group, codes);
  Codes::Scales(tile, g, scales);
  if constexpr (Codes::kHasMinima) Codes::Minima(group, minima);
  for (int half = 0; half < 2; ++half) {
    float half_scales[kTileRows];
    for (int r = 0; r < kTileRows; ++r) {
      half_scales[r] = scales[r];
      if constexpr (Codes::kHasSubScales) half_scales[r] *= static_cast<float>(Codes::SubScale(group, half, r));
    }
    for (int c = 16 * half; c < 16 * half + 16; ++c) {
      RowF32 values = __builtin_convertvector(codes.column[c], RowF32) * LoadAs<RowF32>(half_scales);
      if constexpr (Codes::kHasMinima) values += LoadAs<RowF32>(minima);
      std::memcpy(out + c * kTileRows, &values, sizeof values);
    }
  }
}

template <typename Codes>
void UnpackGroups(const std::byte* tile, int64_t begin, int64_t count, float* out) {
  PENG_CHECK(begin % packed::kGroup == 0 && count % packed::kGroup == 0);
  for (int64_t g = begin / packed::kGroup; g < (begin + count) / packed::kGroup; ++g, out += packed::kGroup * kTileRows)
    UnpackGroup<Codes>(tile, g, out);
}

}  // namespace

const LayoutInfo& Info(Layout layout) {
  PENG_CHECK(static_cast<size_t>(layout) < std::size(kLayouts));
  return kLayouts[static_cast<size_t>(layout)];
}

std::span<const LayoutInfo> AllLayouts() { return kLayouts; }

std::optional<Layout> LayoutOf(tensor::Format format) {
  for (const LayoutInfo& info : kLayouts)
    if (info.file_format == format) return info.layout;
  return std::nullopt;
}

int64_t PackedTileBytes(Layout layout, int64_t cols) {
  const LayoutInfo& info = Info(layout);
  PENG_CHECK(cols % info.block_cols == 0);
  return cols / info.block_cols * info.block_bytes;
}

void PackTile(Layout layout, const tensor::Weight& w, int64_t row_begin, std::byte* out) {
  PENG_CHECK(w.format == Info(layout).file_format && row_begin >= 0);
  std::memset(out, 0, static_cast<size_t>(PackedTileBytes(layout, w.cols)));
  const int rows = static_cast<int>(std::clamp<int64_t>(w.rows - row_begin, 0, kTileRows));
  for (int r = 0; r < rows; ++r) PackRow(layout, w.Row(row_begin + r), w.cols, r, out);
}

void UnpackColumns(Layout layout, const std::byte* tile, int64_t begin, int64_t count, float* out) {
  switch (layout) {
    case Layout::kW4G32:
      return UnpackGroups<W4Codes>(tile, begin, count, out);
    case Layout::kW4G32M:
      return UnpackGroups<W4MCodes>(tile, begin, count, out);
    case Layout::kW8G32:
      return UnpackGroups<W8Codes>(tile, begin, count, out);
    case Layout::kW6T256:
      return UnpackGroups<W6Codes>(tile, begin, count, out);
    default:
      break;
  }
  const int64_t bytes = Info(layout).block_bytes / kTileRows, n = count * kTileRows;
  const std::byte* in = tile + begin * kTileRows * bytes;
  if (layout == Layout::kF32) std::memcpy(out, in, static_cast<size_t>(n * bytes));
  if (layout == Layout::kF16)
    for (int64_t i = 0; i < n; ++i) out[i] = base::F16ToF32(LoadAs<uint16_t>(in + i * bytes));
  if (layout == Layout::kBF16)
    for (int64_t i = 0; i < n; ++i) out[i] = base::BF16ToF32(LoadAs<uint16_t>(in + i * bytes));
}

void UnpackRow(Layout layout, const std::byte* tile, int row, int64_t cols, float* out) {
  PENG_CHECK(row >= 0 && row < kTileRows);
  float block[packed::kGroup * kTileRows];
  for (int64_t c = 0; c < cols; c += packed::kGroup) {
    const int64_t count = std::min<int64_t>(packed::kGroup, cols - c);
    UnpackColumns(layout, tile, c, count, block);
    for (int64_t i = 0; i < count; ++i) out[c + i] = block[i * kTileRows + row];
  }
}

}  // namespace peng::backend::cpu
