// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels/registry.h"
#include "backend/cpu/kernels/test_weights.h"

// Linear kernels alone: no threads but the benchmark's own. Every thread works on weights of its own.
//   bytes_per_second   packed weight bytes read, for few lhs rows from memory: compare with Stream
//   MAC/s              multiply-adds
namespace peng::backend::cpu {
namespace {

constexpr int64_t kStreamBytes = int64_t{256} << 20;

// Reads memory with nothing else to do: what m = 1 can reach.
void Stream(benchmark::State& state) {
  std::vector<uint64_t> data(kStreamBytes / 8, 1);
  for (auto _ : state) {
    uint64_t sums[8] = {};
    for (size_t i = 0; i < data.size(); i += 8)
      for (int j = 0; j < 8; ++j) sums[j] += data[i + j];
    for (uint64_t sum : sums) benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(state.iterations() * kStreamBytes);
}

struct Problem {
  const LinearKernel* kernel;
  int64_t rows;
  int64_t cols;
  int m;
};

void Linear(benchmark::State& state, const Problem& p) {
  const LinearKernel& kernel = *p.kernel;
  // Packing costs more than reading, so one tile is packed and copied.
  const int64_t tile_bytes = PackedTileBytes(kernel.layout, p.cols);
  const int num_tiles = static_cast<int>(p.rows / kTileRows);
  const tensor::Weight w = RandomWeight(Info(kernel.layout).file_format, kTileRows, p.cols, 1);
  AlignedBytes packed(num_tiles * tile_bytes);
  PackTile(kernel.layout, w, 0, packed.data());
  for (int t = 1; t < num_tiles; ++t) std::memcpy(packed.data() + t * tile_bytes, packed.data(), tile_bytes);

  std::mt19937 random(2);
  std::vector<float> x(p.m * p.cols);
  for (float& v : x) v = static_cast<float>(random()) * 1e-9F - 2.0F;
  const bool quantized = kernel.quantize_lhs != nullptr;
  const int64_t stride = quantized ? A8G32Row{p.cols}.bytes() : p.cols * 4;
  AlignedBytes lhs(p.m * stride);
  for (int i = 0; i < p.m; ++i) {
    if (quantized)
      kernel.quantize_lhs(x.data() + i * p.cols, p.cols, lhs.data() + i * stride);
    else
      std::memcpy(lhs.data() + i * stride, x.data() + i * p.cols, stride);
  }
  std::vector<float> out(p.m * p.rows);
  AlignedBytes scratch(kernel.scratch_bytes(p.cols));
  for (auto _ : state) {
    kernel.gemm({lhs.data(), stride, p.m, packed.data(), num_tiles, p.cols, out.data(), p.rows, scratch.data()});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * num_tiles * tile_bytes);
  state.counters["MAC/s"] =
      benchmark::Counter(static_cast<double>(p.m * p.rows * p.cols), benchmark::Counter::kIsIterationInvariantRate);
}

void Quantize(benchmark::State& state, const LinearKernel& kernel) {
  const int64_t cols = 1536;
  std::vector<float> x(cols, 0.5F);
  AlignedBytes out(A8G32Row{cols}.bytes());
  for (auto _ : state) {
    kernel.quantize_lhs(x.data(), cols, out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * cols);
}

void Pack(benchmark::State& state, Layout layout) {
  const tensor::Weight w = RandomWeight(Info(layout).file_format, kTileRows, 1536, 1);
  AlignedBytes out(PackedTileBytes(layout, w.cols));
  for (auto _ : state) {
    PackTile(layout, w, 0, out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * PackedTileBytes(layout, w.cols));
}

void Add(const LinearKernel& kernel, int64_t rows, int64_t cols, int m) {
  const std::string name =
      std::string(kernel.name) + "/" + std::to_string(rows) + "x" + std::to_string(cols) + "/m" + std::to_string(m);
  benchmark::RegisterBenchmark(name.c_str(),
                               [=, &kernel](benchmark::State& state) { Linear(state, {&kernel, rows, cols, m}); });
}

void AddAll() {
  benchmark::RegisterBenchmark("stream", Stream)->Threads(1)->Threads(2);
  for (const LayoutInfo& info : AllLayouts())
    benchmark::RegisterBenchmark((std::string("pack_") + info.name).c_str(), Pack, info.layout);
  for (std::span<const LinearKernel> kernels : AllLinearKernels()) {
    for (const LinearKernel& kernel : kernels) {
      if ((kernel.required_isa & ~HostIsa()) != 0) continue;
      // Few rows: weights larger than any cache. Many rows: the shapes of a 1.5B model.
      for (int m : {1, 2, 4, 8}) Add(kernel, 102400, 1536, m);
      for (int m : {32, 128, 512}) Add(kernel, 1536, 1536, m);
      for (int m : {128}) {
        Add(kernel, 8960, 1536, m);
        Add(kernel, 1536, 8960, m);
      }
      if (kernel.quantize_lhs != nullptr && kernel.layout == Layout::kW4G32)
        benchmark::RegisterBenchmark((std::string("quantize/") + kernel.name).c_str(),
                                     [&kernel](benchmark::State& state) { Quantize(state, kernel); });
    }
  }
}

}  // namespace
}  // namespace peng::backend::cpu

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  peng::backend::cpu::AddAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
