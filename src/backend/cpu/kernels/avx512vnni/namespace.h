// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernels of this folder are compiled twice when tests are built: natively, and in their own namespace with
// emulated instructions (intrinsics.h), so that they are tested on CPUs without AVX-512 too.
#ifdef PENG_EMULATE_AVX512
#define PENG_AVX512_NAMESPACE avx512vnni_emulated
#else
#define PENG_AVX512_NAMESPACE avx512vnni
#endif
