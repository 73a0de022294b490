// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

namespace peng::backend::cpu {

// Calls f(i) for i = 0..N-1 with i as a constant. Loops over arrays of vector registers use this: when the compiler
// sees a variable index before it unrolls, it keeps the array in memory and stores to it in the innermost loop.
template <int N, typename F>
[[gnu::always_inline]] inline void Unroll(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>()), ...);
  }(std::make_integer_sequence<int, N>());
}

}  // namespace peng::backend::cpu
