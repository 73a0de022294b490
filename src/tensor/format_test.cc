// SPDX-License-Identifier: Apache-2.0
#include "tensor/format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mmap.h"
#include "tensor/dtype.h"
#include "tensor/weight.h"

namespace peng::tensor {
namespace {

// The tensors of blocks.safetensors. Read here by hand, since the reader of that format builds on this folder.
class GoldenBlocks {
 public:
  GoldenBlocks() : file_(PENG_SOURCE_DIR "/tests/data/gguf/blocks.safetensors") {
    uint64_t length;
    std::memcpy(&length, file_.data(), sizeof length);
    data_ = file_.data() + 8 + length;
    auto parsed = base::ParseJson({reinterpret_cast<const char*>(file_.data()) + 8, length});
    header_ = std::get<base::Json>(parsed);
  }

  const std::byte* Data(const std::string& name) const {
    return data_ + header_.Find(name)->Find("data_offsets")->as_array()[0].as_int();
  }
  int64_t Size(const std::string& name, int dim) const {
    return header_.Find(name)->Find("shape")->as_array()[dim].as_int();
  }
  bool Has(const std::string& name) const { return header_.Find(name) != nullptr; }

 private:
  base::MappedFile file_;
  base::Json header_;
  const std::byte* data_;
};

// Every row of `bytes` decodes to exactly the row of `values`.
void ExpectDecodesExactly(const GoldenBlocks& golden, const FormatInfo& info, const std::string& bytes,
                          const std::string& values) {
  const int64_t rows = golden.Size(bytes, 0), cols = golden.Size(values, 1);
  ASSERT_EQ(RowBytes(info.format, cols), golden.Size(bytes, 1));
  std::vector<float> out(static_cast<size_t>(cols)), expected(out);
  for (int64_t r = 0; r < rows; ++r) {
    info.decode_row(golden.Data(bytes) + r * golden.Size(bytes, 1), cols, out.data());
    std::memcpy(expected.data(), golden.Data(values) + r * cols * 4, static_cast<size_t>(cols) * 4);
    for (int64_t c = 0; c < cols; ++c) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[c]), std::bit_cast<uint32_t>(expected[c]))
          << bytes << " row " << r << " column " << c << ": " << out[c] << " instead of " << expected[c];
    }
  }
}

TEST(Format, DecodersEqualTheGoldenBlocksBitForBit) {
  const GoldenBlocks golden;
  int tested = 0;
  for (const FormatInfo& info : AllFormats()) {
    if (!info.quantized) continue;
    const std::string name(info.name);
    ASSERT_TRUE(golden.Has(name + ".bytes")) << name;
    ExpectDecodesExactly(golden, info, name + ".bytes", name + ".dequant");
    ExpectDecodesExactly(golden, info, name + ".random_bytes", name + ".random_dequant");
    ++tested;
  }
  EXPECT_EQ(tested, 12);
}

TEST(Format, DecodesFloats) {
  const uint16_t halves[] = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x8000};
  float out[5];
  Info(Format::kF16).decode_row(reinterpret_cast<const std::byte*>(halves), 5, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.0f);
  EXPECT_EQ(out[2], 65504.0f);
  EXPECT_EQ(out[3], 5.9604644775390625e-8f);
  EXPECT_TRUE(std::signbit(out[4]));

  const uint16_t brains[] = {0x3F80, 0xC000, 0x7F7F};
  Info(Format::kBF16).decode_row(reinterpret_cast<const std::byte*>(brains), 3, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.0f);
  EXPECT_EQ(out[2], 3.3895313892515355e38f);
}

TEST(Format, TableIsConsistent) {
  for (const FormatInfo& info : AllFormats()) {
    EXPECT_EQ(&Info(info.format), &info);
    EXPECT_EQ(FormatFromName(info.name), info.format);
    EXPECT_EQ(RowBytes(info.format, 4 * info.block_values), 4 * info.block_bytes);
  }
  EXPECT_EQ(FormatFromName("IQ2_XS"), std::nullopt);
  EXPECT_EQ(FormatFromName(""), std::nullopt);
}

TEST(DType, Sizes) {
  EXPECT_EQ(DTypeBytes(DType::kF32), 4u);
  EXPECT_EQ(DTypeBytes(DType::kBF16), 2u);
  EXPECT_EQ(DTypeBytes(DType::kI8), 1u);
  EXPECT_STREQ(DTypeName(DType::kF16), "float16");
}

TEST(Weight, DecodesARowOfAPartOfColumns) {
  // Two rows of 64 values in Q8_0; the weight is their second half.
  std::vector<std::byte> file(4 * 34);
  const uint16_t one = 0x3C00;
  for (int block = 0; block < 4; ++block) {
    std::memcpy(&file[block * 34], &one, 2);
    for (int i = 0; i < 32; ++i) file[block * 34 + 2 + i] = static_cast<std::byte>(block * 32 + i - 64);
  }
  Weight w;
  w.rows = 2;
  w.cols = 32;
  w.format = Format::kQ8_0;
  w.planes = {{file.data() + 34, 34, 68}};
  float out[32];
  DecodeRow(w, 1, out);
  EXPECT_EQ(out[0], 32.0f);
  EXPECT_EQ(out[31], 63.0f);
}

}  // namespace
}  // namespace peng::tensor
