// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

#include <cstring>

#include "base/check.h"
#include "base/half.h"

namespace peng::backend {

std::vector<Variant> AllVariants() {
  std::vector<Variant> setups;
  for (uint32_t isa : {uint32_t{0}, cpu::HostIsa()}) {
    for (ComputeType compute : {ComputeType::kAuto, ComputeType::kFloat32})
      setups.push_back({isa, compute, {{-1, -1}}});
  }
  return setups;
}

std::string NameOf(const Variant& variant) {
  return cpu::IsaNames(variant.isa) + (variant.compute == ComputeType::kAuto ? " auto" : " float32");
}

std::vector<std::vector<std::vector<int>>> AllPools() {
  return {{{-1}}, {{-1, -1}}, {{-1, -1, -1}}, {{-1, -1, -1, -1, -1}}, {{-1, -1}, {-1}}};
}

TestBackend::TestBackend(const Variant& variant, int block_size) {
  cpu::CpuBackendConfig config;
  config.isa = variant.isa;
  config.compute = variant.compute;
  config.pool.shards = variant.shards;
  config.block_size = block_size;
  backend_ = cpu::MakeCpuBackend(config);
  arena_ = backend_->MakeArena(int64_t{256} << 20);
}

Tensor TestBackend::Empty(int64_t rows, int64_t cols, int64_t padding) {
  Tensor whole = arena_->Alloc(rows, cols + padding, tensor::DType::kF32);
  const std::vector<float> gaps(static_cast<size_t>(rows * (cols + padding)), kGap);
  backend_->Write(gaps.data(), whole);
  return whole.Cols(0, cols);
}

Tensor TestBackend::Put(const std::vector<float>& values, int64_t cols, int64_t padding) {
  Tensor t = Empty(static_cast<int64_t>(values.size()) / cols, cols, padding);
  backend_->Write(values.data(), t);
  return t;
}

std::vector<float> TestBackend::Get(const Tensor& t) {
  std::vector<float> values(static_cast<size_t>(t.rows * t.cols));
  backend_->Read(t, values.data());
  return values;
}

bool TestBackend::GapsUntouched(const Tensor& t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    for (int64_t c = t.cols; c < t.stride; ++c) {
      if (static_cast<const float*>(t.data)[r * t.stride + c] != kGap) return false;
    }
  }
  return true;
}

std::unique_ptr<PreparedWeight> TestBackend::Prepare(tensor::Weight w, WeightUse use) {
  return backend_->Prepare(std::move(w), use, {});
}

std::unique_ptr<PreparedWeight> TestBackend::Vector(const std::vector<float>& values) {
  return Prepare(FloatWeight(values, static_cast<int64_t>(values.size())), WeightUse::kVector);
}

std::vector<float> Normal(int64_t count, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = normal(random);
  return values;
}

namespace {

tensor::Weight OwnedWeight(std::shared_ptr<std::vector<std::byte>> bytes, tensor::Format format, int64_t rows,
                           int64_t cols) {
  tensor::Weight w;
  w.name = "test";
  w.rows = rows;
  w.cols = cols;
  w.format = format;
  const int64_t row_bytes = tensor::RowBytes(format, cols);
  w.planes.push_back({bytes->data(), row_bytes, row_bytes});
  w.owner = std::move(bytes);
  return w;
}

void PutHalf(std::byte* at, float value) {
  const uint16_t half = base::F32ToF16(value);
  std::memcpy(at, &half, sizeof half);
}

// Overwrites the float16 scales of a block of random bits: values of magnitude `scale` or little more at most.
void BoundScales(tensor::Format format, std::byte* block, float scale) {
  const auto put = [&](int at, float value) { PutHalf(block + at, value); };
  switch (format) {
    case tensor::Format::kQ4_0:
      return put(0, scale / 8);
    case tensor::Format::kQ4_1:
      put(0, scale / 8);
      return put(2, -scale);
    case tensor::Format::kQ5_0:
      return put(0, scale / 16);
    case tensor::Format::kQ5_1:
      put(0, scale / 16);
      return put(2, -scale);
    case tensor::Format::kQ8_0:
      return put(0, scale / 128);
    case tensor::Format::kQ2_K:
      put(80, scale / 3 / 15);
      return put(82, scale / 15);
    case tensor::Format::kQ3_K:
      return put(108, scale / 4 / 32);
    case tensor::Format::kQ4_K:
      put(0, scale / 15 / 63);
      return put(2, scale / 63);
    case tensor::Format::kQ5_K:
      put(0, scale / 31 / 63);
      return put(2, scale / 63);
    case tensor::Format::kQ6_K:
      return put(208, scale / 32 / 128);
    case tensor::Format::kIQ4_NL:
      return put(0, scale / 127);
    case tensor::Format::kIQ4_XS:
      return put(0, scale / 127 / 32);
    default:
      PENG_CHECK(false);
  }
}

}  // namespace

tensor::Weight RandomWeight(tensor::Format format, int64_t rows, int64_t cols, uint32_t seed) {
  const tensor::FormatInfo& info = tensor::Info(format);
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows * tensor::RowBytes(format, cols)));
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  if (info.quantized) {
    for (std::byte& b : *bytes) b = static_cast<std::byte>(random());
    for (size_t at = 0; at < bytes->size(); at += info.block_bytes) {
      BoundScales(format, bytes->data() + at, uniform(random));
    }
  } else {
    for (size_t at = 0; at < bytes->size(); at += info.block_bytes) {
      const float value = uniform(random);
      const uint16_t half = format == tensor::Format::kF16 ? base::F32ToF16(value) : base::F32ToBF16(value);
      std::memcpy(bytes->data() + at, format == tensor::Format::kF32 ? static_cast<const void*>(&value) : &half,
                  info.block_bytes);
    }
  }
  return OwnedWeight(std::move(bytes), format, rows, cols);
}

tensor::Weight FloatWeight(const std::vector<float>& values, int64_t cols) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(float));
  std::memcpy(bytes->data(), values.data(), bytes->size());
  return OwnedWeight(std::move(bytes), tensor::Format::kF32, static_cast<int64_t>(values.size()) / cols, cols);
}

std::vector<float> Decode(const tensor::Weight& w) {
  std::vector<float> values(static_cast<size_t>(w.rows * w.cols));
  for (int64_t r = 0; r < w.rows; ++r) tensor::DecodeRow(w, r, values.data() + r * w.cols);
  return values;
}

}  // namespace peng::backend
