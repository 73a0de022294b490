// SPDX-License-Identifier: Apache-2.0
// Row operations over a Simd type of one instruction set. Included by that set's .cc only; uses no inline function of
// the standard library, since the linker may keep a copy that was compiled for a CPU with more instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace peng::backend::cpu {

// Loads the first n <= lanes values, zeros behind them.
template <class S>
inline S LoadHead(const float* p, int n) {
  if (n == S::kLanes) return S::Load(p);
  float buffer[S::kLanes] = {};
  for (int i = 0; i < n; ++i) buffer[i] = p[i];
  return S::Load(buffer);
}

template <class S>
inline void StoreHead(S x, float* p, int n) {
  if (n == S::kLanes) return x.Store(p);
  float buffer[S::kLanes];
  x.Store(buffer);
  for (int i = 0; i < n; ++i) p[i] = buffer[i];
}

template <class S>
inline int LanesLeft(int64_t i, int64_t n) {
  return n - i < S::kLanes ? static_cast<int>(n - i) : S::kLanes;
}

// 2^x for x clamped to [-125, 126], about 2 ulp; exactly 1 at 0. NaN stays NaN.
template <class S>
inline S Exp2(S x) {
  x = S::Min(S::Set(126.0f), S::Max(S::Set(-125.0f), x));
  // Adding 1.5 * 2^23 rounds to an integer that is left in the low bits.
  const S magic = S::Set(12582912.0f);
  const S t = S::Add(x, magic);
  const S f = S::Sub(x, S::Sub(t, magic));  // within [-0.5, 0.5]
  S p = S::Set(1.5403530e-4f);              // ln(2)^k / k!
  p = S::Fma(p, f, S::Set(1.3333558e-3f));
  p = S::Fma(p, f, S::Set(9.6181291e-3f));
  p = S::Fma(p, f, S::Set(5.5504109e-2f));
  p = S::Fma(p, f, S::Set(2.4022651e-1f));
  p = S::Fma(p, f, S::Set(6.9314718e-1f));
  p = S::Fma(p, f, S::Set(1.0f));
  return S::ScaleByBits(p, t);
}

template <class S>
void RmsNormRow(const float* x, const float* weight, int64_t n, double eps, float* out) {
  S sums[4] = {S::Zero(), S::Zero(), S::Zero(), S::Zero()};
  int64_t i = 0;
  for (; i + 4 * S::kLanes <= n; i += 4 * S::kLanes) {
    for (int k = 0; k < 4; ++k) {
      const S a = S::Load(x + i + k * S::kLanes);
      sums[k] = S::Fma(a, a, sums[k]);
    }
  }
  for (; i < n; i += S::kLanes) {
    const S a = LoadHead<S>(x + i, LanesLeft<S>(i, n));
    sums[0] = S::Fma(a, a, sums[0]);
  }
  const float sum = S::Sum(S::Add(S::Add(sums[0], sums[1]), S::Add(sums[2], sums[3])));
  const double mean = static_cast<double>(sum) / static_cast<double>(n);
  const S scale = S::Set(static_cast<float>(1.0 / __builtin_sqrt(mean + eps)));
  const auto normed = [scale](S a, S w) { return S::Mul(S::Mul(a, scale), w); };
  for (i = 0; i + S::kLanes <= n; i += S::kLanes) normed(S::Load(x + i), S::Load(weight + i)).Store(out + i);
  if (i < n) {
    const int left = static_cast<int>(n - i);
    StoreHead(normed(LoadHead<S>(x + i, left), LoadHead<S>(weight + i, left)), out + i, left);
  }
}

template <class S>
void AddRow(float* x, const float* y, int64_t n) {
  int64_t i = 0;
  for (; i + S::kLanes <= n; i += S::kLanes) S::Add(S::Load(x + i), S::Load(y + i)).Store(x + i);
  for (; i < n; ++i) x[i] += y[i];
}

template <class S>
inline S SwiGlu(S gate, S up) {
  const S exponential = Exp2(S::Mul(gate, S::Set(-1.44269504f)));
  return S::Mul(S::Div(gate, S::Add(S::Set(1.0f), exponential)), up);
}

template <class S>
void SwiGluRow(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + S::kLanes <= n; i += S::kLanes) SwiGlu(S::Load(gate + i), S::Load(up + i)).Store(out + i);
  if (i == n) return;
  const int left = static_cast<int>(n - i);
  StoreHead(SwiGlu(LoadHead<S>(gate + i, left), LoadHead<S>(up + i, left)), out + i, left);
}

template <class S>
void RopeHead(float* head, const float* cos, const float* sin, int rotary_dim, bool interleaved) {
  const int half = rotary_dim / 2;
  if (interleaved) {
    for (int i = 0; i < half; ++i) {
      const float a = head[2 * i];
      const float b = head[2 * i + 1];
      head[2 * i] = a * cos[i] - b * sin[i];
      head[2 * i + 1] = b * cos[i] + a * sin[i];
    }
    return;
  }
  for (int i = 0; i < half; i += S::kLanes) {
    const int left = LanesLeft<S>(i, half);
    const S a = LoadHead<S>(head + i, left);
    const S b = LoadHead<S>(head + half + i, left);
    const S c = LoadHead<S>(cos + i, left);
    const S s = LoadHead<S>(sin + i, left);
    StoreHead(S::Sub(S::Mul(a, c), S::Mul(b, s)), head + i, left);
    StoreHead(S::Add(S::Mul(b, c), S::Mul(a, s)), head + half + i, left);
  }
}

template <class S>
inline void StoreAs(S x, tensor::DType dtype, void* to) {
  if (dtype == tensor::DType::kBF16) {
    x.StoreBF16(static_cast<uint16_t*>(to));
  } else if (dtype == tensor::DType::kF16) {
    x.StoreF16(static_cast<uint16_t*>(to));
  } else {
    x.Store(static_cast<float*>(to));
  }
}

static inline int ElementBytes(tensor::DType dtype) { return dtype == tensor::DType::kF32 ? 4 : 2; }

template <class S>
void NarrowRow(const float* from, int64_t n, tensor::DType dtype, std::byte* to) {
  const int bytes = ElementBytes(dtype);
  int64_t i = 0;
  for (; i + S::kLanes <= n; i += S::kLanes) StoreAs(S::Load(from + i), dtype, to + i * bytes);
  if (i == n) return;
  float buffer[S::kLanes];  // holds the narrowed lanes
  StoreAs(LoadHead<S>(from + i, static_cast<int>(n - i)), dtype, buffer);
  __builtin_memcpy(to + i * bytes, buffer, (n - i) * bytes);
}

}  // namespace peng::backend::cpu
