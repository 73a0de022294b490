// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/half.h"

namespace peng::backend::cpu::portable {

// Eight floats in the compiler's own vectors: pairs of 4-lane registers on SSE2 and NEON. Fma rounds twice here; each
// table of kernels has its own arithmetic.
struct Simd {
  typedef float F __attribute__((vector_size(32)));
  typedef int32_t I __attribute__((vector_size(32)));
  static constexpr int kLanes = 8;
  F v;

  static Simd Zero() { return {F{}}; }
  static Simd Set(float x) { return {F{x, x, x, x, x, x, x, x}}; }
  static Simd Load(const float* p) {
    Simd r;
    __builtin_memcpy(&r.v, p, sizeof(F));
    return r;
  }
  void Store(float* p) const { __builtin_memcpy(p, &v, sizeof(F)); }

  static Simd Fma(Simd a, Simd b, Simd c) { return {a.v * b.v + c.v}; }
  static Simd Add(Simd a, Simd b) { return {a.v + b.v}; }
  static Simd Sub(Simd a, Simd b) { return {a.v - b.v}; }
  static Simd Mul(Simd a, Simd b) { return {a.v * b.v}; }
  static Simd Div(Simd a, Simd b) { return {a.v / b.v}; }
  // b where either is NaN.
  static Simd Max(Simd a, Simd b) { return {a.v > b.v ? a.v : b.v}; }
  static Simd Min(Simd a, Simd b) { return {a.v < b.v ? a.v : b.v}; }

  // p * 2^n, where the low bits of t hold the integer n.
  static Simd ScaleByBits(Simd p, Simd t) { return {(F)((I)p.v + ((I)t.v << 23))}; }
  // The first n lanes, `fill` in the others.
  static Simd Head(Simd x, int n, float fill) {
    const I lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    const I count = {n, n, n, n, n, n, n, n};
    return {lanes < count ? x.v : Set(fill).v};
  }

  static float Sum(Simd x) { return ((x.v[0] + x.v[4]) + (x.v[2] + x.v[6])) + ((x.v[1] + x.v[5]) + (x.v[3] + x.v[7])); }
  static float MaxLane(Simd x) {
    float m = x.v[0];
    for (int i = 1; i < kLanes; ++i) m = x.v[i] > m ? x.v[i] : m;
    return m;
  }

  static Simd LoadBF16(const uint16_t* p) {
    I bits;
    for (int i = 0; i < kLanes; ++i) bits[i] = static_cast<int32_t>(static_cast<uint32_t>(p[i]) << 16);
    return {(F)bits};
  }
  static Simd LoadF16(const uint16_t* p) {
    Simd r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = base::F16ToF32(p[i]);
    return r;
  }
  void StoreBF16(uint16_t* p) const {
    for (int i = 0; i < kLanes; ++i) p[i] = base::F32ToBF16(v[i]);
  }
  void StoreF16(uint16_t* p) const {
    for (int i = 0; i < kLanes; ++i) p[i] = base::F32ToF16(v[i]);
  }

  static void Transpose(Simd (&m)[kLanes]) {
    for (int i = 0; i < kLanes; ++i) {
      for (int j = i + 1; j < kLanes; ++j) {
        const float t = m[i].v[j];
        m[i].v[j] = m[j].v[i];
        m[j].v[i] = t;
      }
    }
  }
};

}  // namespace peng::backend::cpu::portable
