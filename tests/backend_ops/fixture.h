// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace peng::backend {

// One configuration that every operation is tested in.
struct Variant {
  uint32_t isa = 0;
  ComputeType compute = ComputeType::kAuto;
  std::vector<std::vector<int>> shards = {{-1}};
};

// Portable code and the best of this machine, in both compute types.
std::vector<Variant> AllVariants();
std::string NameOf(const Variant& variant);

// 1, 2, 3 and 5 threads, and two shards of 2 and 1 lanes.
std::vector<std::vector<std::vector<int>>> AllPools();

// A backend with an arena for the tensors of one test.
class TestBackend {
 public:
  explicit TestBackend(const Variant& variant, int block_size = 32);

  Backend& operator*() { return *backend_; }
  Backend* operator->() { return backend_.get(); }
  Ops& ops() { return backend_->ops(); }

  // A tensor of `values`, rows `padding` elements apart from each other; the gaps hold kGap.
  Tensor Put(const std::vector<float>& values, int64_t cols, int64_t padding = 0);
  Tensor Empty(int64_t rows, int64_t cols, int64_t padding = 0);
  std::vector<float> Get(const Tensor& t);
  // Whether the gaps of a tensor made with `padding` are untouched.
  static bool GapsUntouched(const Tensor& t);

  std::unique_ptr<PreparedWeight> Prepare(tensor::Weight w, WeightUse use);
  std::unique_ptr<PreparedWeight> Vector(const std::vector<float>& values);

  static constexpr float kGap = -12345.0f;

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Arena> arena_;
};

// `count` values of a normal distribution.
std::vector<float> Normal(int64_t count, uint32_t seed, float scale = 1.0f);

// A weight of random code bits, with scales bounded so that values are about 1 at most.
tensor::Weight RandomWeight(tensor::Format format, int64_t rows, int64_t cols, uint32_t seed);
tensor::Weight FloatWeight(const std::vector<float>& values, int64_t cols);
// All values of a weight, row by row.
std::vector<float> Decode(const tensor::Weight& w);

}  // namespace peng::backend
