// SPDX-License-Identifier: Apache-2.0
#include "tensor/format.h"

#include <iterator>

#include "base/check.h"
#include "tensor/decode.h"

namespace peng::tensor {
namespace {

constexpr FormatInfo kFormats[] = {
    {Format::kF32, "F32", 1, 4, false, DecodeF32},
    {Format::kF16, "F16", 1, 2, false, DecodeF16},
    {Format::kBF16, "BF16", 1, 2, false, DecodeBF16},
    {Format::kQ4_0, "Q4_0", 32, 18, true, DecodeQ4_0},
    {Format::kQ4_1, "Q4_1", 32, 20, true, DecodeQ4_1},
    {Format::kQ8_0, "Q8_0", 32, 34, true, DecodeQ8_0},
    {Format::kQ6_K, "Q6_K", 256, 210, true, DecodeQ6_K},
    {Format::kQ5_0, "Q5_0", 32, 22, true, DecodeQ5_0},
    {Format::kQ5_1, "Q5_1", 32, 24, true, DecodeQ5_1},
    {Format::kQ2_K, "Q2_K", 256, 84, true, DecodeQ2_K},
    {Format::kQ3_K, "Q3_K", 256, 110, true, DecodeQ3_K},
    {Format::kQ4_K, "Q4_K", 256, 144, true, DecodeQ4_K},
    {Format::kQ5_K, "Q5_K", 256, 176, true, DecodeQ5_K},
    {Format::kIQ4_NL, "IQ4_NL", 32, 18, true, DecodeIQ4_NL},
    {Format::kIQ4_XS, "IQ4_XS", 256, 136, true, DecodeIQ4_XS},
};

consteval bool RowsAreAtTheirIndex() {
  for (size_t i = 0; i < std::size(kFormats); ++i)
    if (static_cast<size_t>(kFormats[i].format) != i) return false;
  return true;
}
static_assert(RowsAreAtTheirIndex());

}  // namespace

const FormatInfo& Info(Format format) {
  PENG_CHECK(static_cast<size_t>(format) < std::size(kFormats));
  return kFormats[static_cast<size_t>(format)];
}

std::span<const FormatInfo> AllFormats() { return kFormats; }

std::optional<Format> FormatFromName(std::string_view name) {
  for (const FormatInfo& info : kFormats)
    if (info.name == name) return info.format;
  return std::nullopt;
}

int64_t RowBytes(Format format, int64_t cols) {
  const FormatInfo& info = Info(format);
  PENG_CHECK(cols % info.block_values == 0);
  return cols / info.block_values * info.block_bytes;
}

}  // namespace peng::tensor
