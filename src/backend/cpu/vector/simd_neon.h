// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace peng::backend::cpu::neon {

// Eight floats in two NEON registers; all of it is in Armv8.0. Lanes, order and fused products are those of the AVX2
// row, and so are the bits of its results.
struct Simd {
  static constexpr int kLanes = 8;
  float32x4_t lo, hi;

  static Simd Zero() { return Set(0.0f); }
  static Simd Set(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
  static Simd Load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  void Store(float* p) const {
    vst1q_f32(p, lo);
    vst1q_f32(p + 4, hi);
  }

  static Simd Fma(Simd a, Simd b, Simd c) { return {vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)}; }
  static Simd Add(Simd a, Simd b) { return {vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)}; }
  static Simd Sub(Simd a, Simd b) { return {vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)}; }
  static Simd Mul(Simd a, Simd b) { return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)}; }
  static Simd Div(Simd a, Simd b) { return {vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)}; }
  // b where either is NaN: NEON's own maximum would be NaN if only a is.
  static Simd Max(Simd a, Simd b) {
    return {vbslq_f32(vcgtq_f32(a.lo, b.lo), a.lo, b.lo), vbslq_f32(vcgtq_f32(a.hi, b.hi), a.hi, b.hi)};
  }
  static Simd Min(Simd a, Simd b) {
    return {vbslq_f32(vcltq_f32(a.lo, b.lo), a.lo, b.lo), vbslq_f32(vcltq_f32(a.hi, b.hi), a.hi, b.hi)};
  }

  // p * 2^n, where the low bits of t hold the integer n.
  static Simd ScaleByBits(Simd p, Simd t) { return {ScaleByBits(p.lo, t.lo), ScaleByBits(p.hi, t.hi)}; }
  // The first n lanes, `fill` in the others.
  static Simd Head(Simd x, int n, float fill) {
    const int32x4_t lanes = {0, 1, 2, 3};
    const float32x4_t other = vdupq_n_f32(fill);
    return {vbslq_f32(vcgtq_s32(vdupq_n_s32(n), lanes), x.lo, other),
            vbslq_f32(vcgtq_s32(vdupq_n_s32(n - 4), lanes), x.hi, other)};
  }

  static float Sum(Simd x) {
    const float32x4_t s = vaddq_f32(x.lo, x.hi);
    const float32x2_t pairs = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(pairs, 0) + vget_lane_f32(pairs, 1);
  }
  static float MaxLane(Simd x) {
    const Simd m = Max({x.lo, x.lo}, {x.hi, x.hi});
    const float a = Greater(vgetq_lane_f32(m.lo, 0), vgetq_lane_f32(m.lo, 2));
    return Greater(a, Greater(vgetq_lane_f32(m.lo, 1), vgetq_lane_f32(m.lo, 3)));
  }

  static Simd LoadBF16(const uint16_t* p) {
    const uint16x8_t bits = vld1q_u16(p);
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
            vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(bits), 16))};
  }
  static Simd LoadF16(const uint16_t* p) {
    const float16x8_t half = vreinterpretq_f16_u16(vld1q_u16(p));
    return {vcvt_f32_f16(vget_low_f16(half)), vcvt_f32_f16(vget_high_f16(half))};
  }
  void StoreBF16(uint16_t* p) const { vst1q_u16(p, vcombine_u16(NarrowBF16(lo), NarrowBF16(hi))); }
  void StoreF16(uint16_t* p) const {
    vst1q_u16(p, vreinterpretq_u16_f16(vcombine_f16(vcvt_f16_f32(lo), vcvt_f16_f32(hi))));
  }

  static void Transpose(Simd (&m)[kLanes]) {
    Transpose4(m[0].lo, m[1].lo, m[2].lo, m[3].lo);
    Transpose4(m[4].hi, m[5].hi, m[6].hi, m[7].hi);
    float32x4_t upper[4] = {m[0].hi, m[1].hi, m[2].hi, m[3].hi};
    Transpose4(upper[0], upper[1], upper[2], upper[3]);
    Transpose4(m[4].lo, m[5].lo, m[6].lo, m[7].lo);
    for (int i = 0; i < 4; ++i) {
      m[i].hi = m[i + 4].lo;
      m[i + 4].lo = upper[i];
    }
  }

 private:
  static float Greater(float a, float b) { return a > b ? a : b; }

  static float32x4_t ScaleByBits(float32x4_t p, float32x4_t t) {
    const int32x4_t exponent = vshlq_n_s32(vreinterpretq_s32_f32(t), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), exponent));
  }

  // Rounds to nearest even; a NaN keeps its upper bits and becomes quiet.
  static uint16x4_t NarrowBF16(float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16);
  }

  static void Transpose4(float32x4_t& a, float32x4_t& b, float32x4_t& c, float32x4_t& d) {
    const float32x4x2_t ab = vtrnq_f32(a, b);
    const float32x4x2_t cd = vtrnq_f32(c, d);
    a = vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0]));
    b = vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1]));
    c = vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0]));
    d = vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1]));
  }
};

}  // namespace peng::backend::cpu::neon
