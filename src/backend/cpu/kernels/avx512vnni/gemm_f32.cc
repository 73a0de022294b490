// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/avx512vnni/gemm.h"
#include "backend/cpu/kernels/avx512vnni/intrinsics.h"
#include "backend/cpu/kernels/unroll.h"

namespace peng::backend::cpu::PENG_AVX512_NAMESPACE {
namespace {

// Every output is one chain of fused multiply-adds in the order of the columns. FMA has a latency of 4 and a throughput
// of 2 per cycle, so 8 chains keep it busy: at least 8 rows, or with few rows several tiles at once.
constexpr int kMaxRows = 12;
// Columns that pass all lhs rows before the next ones: their weights stay in the L1 cache.
constexpr int64_t kBlockCols = 256;

struct F32 {
  static constexpr int64_t kBytes = 4;
  static __m512 Load(const std::byte* p) { return _mm512_loadu_ps(p); }
};

struct F16 {
  static constexpr int64_t kBytes = 2;
  static __m512 Load(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
};

struct BF16 {
  static constexpr int64_t kBytes = 2;
  static __m512 Load(const std::byte* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
};

// Columns [begin, end) of T tiles times M rows: out (+)= sums.
template <typename W, int M, int T>
void AddColumns(const std::byte* lhs, int64_t lhs_stride, const std::byte* tiles, int64_t tile_bytes, int64_t begin,
                int64_t end, float* out, int64_t out_stride) {
  __m512 acc[M][T];
  Unroll<M>([&](auto i) {
    Unroll<T>([&](auto t) {
      acc[i][t] = begin == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(out + i * out_stride + t * kTileRows);
    });
  });
  for (int64_t c = begin; c < end; ++c) {
    __m512 w[T];
    Unroll<T>([&](auto t) {
      const std::byte* p = tiles + t * tile_bytes + c * kTileRows * W::kBytes;
      _mm_prefetch(reinterpret_cast<const char*>(p + 2048), _MM_HINT_T0);
      w[t] = W::Load(p);
    });
    Unroll<M>([&](auto i) {
      const __m512 x = _mm512_set1_ps(reinterpret_cast<const float*>(lhs + i * lhs_stride)[c]);
      Unroll<T>([&](auto t) { acc[i][t] = _mm512_fmadd_ps(x, w[t], acc[i][t]); });
    });
  }
  Unroll<M>(
      [&](auto i) { Unroll<T>([&](auto t) { _mm512_storeu_ps(out + i * out_stride + t * kTileRows, acc[i][t]); }); });
}

template <typename W>
void Gemm(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
          float* out, int64_t out_stride) {
  const int64_t tile_bytes = cols * kTileRows * W::kBytes, block = m <= kMaxRows ? cols : kBlockCols;
  for (int64_t begin = 0; begin < cols; begin += block) {
    const int64_t end = begin + block < cols ? begin + block : cols;
    // As many rows and tiles at a time as there are left of both.
    const auto add = [&]<int M, int T>(int& i, int& t) {
      AddColumns<W, M, T>(lhs + i * lhs_stride, lhs_stride, tiles + t * tile_bytes, tile_bytes, begin, end,
                          out + i * out_stride + t * kTileRows, out_stride);
    };
    const auto rows = [&]<int M, int T>(int& i) {
      for (; i + M <= m; i += M) {
        int t = 0;
        for (; t + T <= num_tiles; t += T) add.template operator()<M, T>(i, t);
        for (; t < num_tiles; ++t) add.template operator()<M, 1>(i, t);
      }
    };
    int i = 0;
    rows.template operator()<kMaxRows, 1>(i);
    rows.template operator()<4, 2>(i);
    rows.template operator()<2, 4>(i);
    rows.template operator()<1, 8>(i);
  }
}

}  // namespace

void GemmF32F32(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
                float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<F32>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

void GemmF32F16(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
                float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<F16>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

void GemmF32BF16(const std::byte* lhs, int64_t lhs_stride, int m, const std::byte* tiles, int num_tiles, int64_t cols,
                 float* out, int64_t out_stride, std::byte* /*scratch*/) {
  Gemm<BF16>(lhs, lhs_stride, m, tiles, num_tiles, cols, out, out_stride);
}

}  // namespace peng::backend::cpu::PENG_AVX512_NAMESPACE
