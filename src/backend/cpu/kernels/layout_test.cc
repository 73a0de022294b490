// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/layout.h"

#include <gtest/gtest.h>

#include <bit>

#include "backend/cpu/kernels/test_weights.h"

namespace peng::backend::cpu {
namespace {

class LayoutTest : public testing::TestWithParam<LayoutInfo> {};

// Rows of odd counts: the last tile has rows that the weight has not.
TEST_P(LayoutTest, PackingIsLossless) {
  const LayoutInfo& info = GetParam();
  for (int64_t rows : {1, 15, 16, 17, 40}) {
    for (int64_t blocks : {1, 2, 3, 5}) {
      const tensor::Weight w = RandomWeight(info.file_format, rows, blocks * info.block_cols, 7 * rows + blocks);
      AlignedBytes packed = PackAll(info.layout, w);
      std::vector<float> want(w.cols), got(w.cols);
      for (int64_t r = 0; r < rows; ++r) {
        const std::byte* tile = packed.data() + r / kTileRows * PackedTileBytes(info.layout, w.cols);
        tensor::DecodeRow(w, r, want.data());
        UnpackRow(info.layout, tile, r % kTileRows, w.cols, got.data());
        for (int64_t c = 0; c < w.cols; ++c)
          ASSERT_EQ(std::bit_cast<uint32_t>(got[c]), std::bit_cast<uint32_t>(want[c])) << "row " << r << " col " << c;
      }
    }
  }
}

TEST_P(LayoutTest, RowsPastTheEndAreZero) {
  const LayoutInfo& info = GetParam();
  const tensor::Weight w = RandomWeight(info.file_format, 3, info.block_cols * 2, 1);
  AlignedBytes packed = PackAll(info.layout, w);
  std::vector<float> row(w.cols);
  for (int r = 3; r < kTileRows; ++r) {
    UnpackRow(info.layout, packed.data(), r, w.cols, row.data());
    for (float v : row) ASSERT_EQ(v, 0.0F);
  }
}

// A copy in memory is as large as in the file, so that a model needs no more than its file.
TEST_P(LayoutTest, TakesTheBytesOfTheFile) {
  const LayoutInfo& info = GetParam();
  EXPECT_EQ(PackedTileBytes(info.layout, 512), kTileRows * tensor::RowBytes(info.file_format, 512));
  EXPECT_EQ(LayoutOf(info.file_format), info.layout);
}

INSTANTIATE_TEST_SUITE_P(All, LayoutTest, testing::ValuesIn(AllLayouts().begin(), AllLayouts().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Layout, EveryFormatHasOne) {
  for (const tensor::FormatInfo& info : tensor::AllFormats())
    EXPECT_EQ(Info(LayoutOf(info.format)).quantized, info.quantized) << info.name;
}

}  // namespace
}  // namespace peng::backend::cpu
