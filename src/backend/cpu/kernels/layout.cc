// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/layout.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "backend/cpu/kernels/packed_codes.h"
#include "base/check.h"
#include "base/half.h"

namespace peng::backend::cpu {
namespace {

using tensor::Format;

constexpr LayoutInfo FloatLayout(Layout layout, const char* name, Format format, int element_bytes) {
  return {layout, name, format, 1, element_bytes * kTileRows, false};
}

constexpr LayoutInfo IntegerLayout(Layout layout, const char* name, Format format) {
  const packed::Shape shape = packed::ShapeOf(layout);
  return {layout, name, format, packed::kGroup * shape.groups(), shape.block_bytes(), true};
}

constexpr LayoutInfo kLayouts[] = {
    FloatLayout(Layout::kF32, "f32", Format::kF32, 4),
    FloatLayout(Layout::kF16, "f16", Format::kF16, 2),
    FloatLayout(Layout::kBF16, "bf16", Format::kBF16, 2),
    IntegerLayout(Layout::kW4G32, "w4g32", Format::kQ4_0),
    IntegerLayout(Layout::kW4G32M, "w4g32m", Format::kQ4_1),
    IntegerLayout(Layout::kW8G32, "w8g32", Format::kQ8_0),
    IntegerLayout(Layout::kW6T256, "w6t256", Format::kQ6_K),
    IntegerLayout(Layout::kW5G32, "w5g32", Format::kQ5_0),
    IntegerLayout(Layout::kW5G32M, "w5g32m", Format::kQ5_1),
    IntegerLayout(Layout::kW2T256M, "w2t256m", Format::kQ2_K),
    IntegerLayout(Layout::kW3T256, "w3t256", Format::kQ3_K),
    IntegerLayout(Layout::kW4T256M, "w4t256m", Format::kQ4_K),
    IntegerLayout(Layout::kW5T256M, "w5t256m", Format::kQ5_K),
    IntegerLayout(Layout::kI4G32, "i4g32", Format::kIQ4_NL),
    IntegerLayout(Layout::kI4T256, "i4t256", Format::kIQ4_XS),
};

consteval bool RowsAreAtTheirIndex() {
  for (size_t i = 0; i < std::size(kLayouts); ++i)
    if (static_cast<size_t>(kLayouts[i].layout) != i) return false;
  return true;
}
static_assert(RowsAreAtTheirIndex());

// The values of a group's codes, out[c][row].
template <Layout kLayout>
void UnpackGroup(const std::byte* codes_begin, const BlockScales<kLayout>& scales, int k, float* out) {
  constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  GroupCodes codes;
  codes.Decode<kLayout>(codes_begin);
  for (int half = 0; half < 2; ++half) {
    RowF32 scale, minimum;
    for (int r = 0; r < kTileRows; ++r) {
      scale[r] = scales.scale[r] * static_cast<float>(scales.Factor(k, half, r));
      minimum[r] = scales.minimum[r] * static_cast<float>(scales.MinFactor(k, half, r));
    }
    for (int c = 16 * half; c < 16 * half + 16; ++c) {
      RowF32 values = __builtin_convertvector(codes.column[c], RowF32) * scale;
      if constexpr (kShape.minima) values += minimum;
      std::memcpy(out + c * kTileRows, &values, sizeof values);
    }
  }
}

template <Layout kLayout>
void UnpackGroups(const std::byte* tile, int64_t begin, int64_t count, float* out) {
  constexpr packed::Shape kShape = packed::ShapeOf(kLayout);
  PENG_CHECK(begin % packed::kGroup == 0 && count % packed::kGroup == 0);
  const int64_t end = (begin + count) / packed::kGroup;
  for (int64_t g = begin / packed::kGroup; g < end;) {
    const BlockScales<kLayout> scales(tile + kShape.BlockAt(g));
    const int64_t block_end = std::min<int64_t>(end, (g / kShape.groups() + 1) * kShape.groups());
    for (; g < block_end; ++g, out += packed::kGroup * kTileRows)
      UnpackGroup(tile + kShape.CodesAt(g), scales, static_cast<int>(g % kShape.groups()), out);
  }
}

}  // namespace

const LayoutInfo& Info(Layout layout) {
  PENG_CHECK(static_cast<size_t>(layout) < std::size(kLayouts));
  return kLayouts[static_cast<size_t>(layout)];
}

std::span<const LayoutInfo> AllLayouts() { return kLayouts; }

Layout LayoutOf(tensor::Format format) {
  const auto* info = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                  [&](const LayoutInfo& candidate) { return candidate.file_format == format; });
  PENG_CHECK(info != std::end(kLayouts));
  return info->layout;
}

int64_t PackedTileBytes(Layout layout, int64_t cols) {
  const LayoutInfo& info = Info(layout);
  PENG_CHECK(cols % info.block_cols == 0);
  return cols / info.block_cols * info.block_bytes;
}

void UnpackColumns(Layout layout, const std::byte* tile, int64_t begin, int64_t count, float* out) {
  if (Info(layout).quantized)
    return WithIntegerLayout(layout, [&]<Layout kLayout>() { UnpackGroups<kLayout>(tile, begin, count, out); });
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
