// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/avx512vnni/namespace.h"

#ifdef PENG_EMULATE_AVX512
#include "backend/cpu/kernels/avx512vnni/emulation-inl.h"
#else
#include <immintrin.h>
#endif
