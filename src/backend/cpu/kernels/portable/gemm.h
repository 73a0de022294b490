// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/kernel.h"

// Functions of the registry rows in kernels.cc; contracts in kernel.h.
namespace peng::backend::cpu::portable {

template <Layout kLayout>
void GemmA8G32(const GemmCall& call);

void GemmF32(Layout layout, const GemmCall& call);

}  // namespace peng::backend::cpu::portable
