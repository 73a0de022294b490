// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "backend/backend.h"
#include "backend/cpu/kernels/isa.h"
#include "base/thread_pool.h"

namespace peng::backend::cpu {

struct CpuBackendConfig {
  ComputeType compute = ComputeType::kAuto;
  // Instruction sets that may be used, of those the CPU has (IsaUpTo("avx2") caps the choice).
  uint32_t isa = ~uint32_t{0};
  base::PoolSpec pool;
  // Element type of the KV cache; nothing = bfloat16, or float32 with ComputeType::kFloat32.
  std::optional<tensor::DType> kv_dtype;
  int block_size = 32;  // tokens, a multiple of 8
};

// The backend on this machine's CPUs. The thread that calls its operations is worker 0 of the pool.
std::unique_ptr<Backend> MakeCpuBackend(const CpuBackendConfig& config);

}  // namespace peng::backend::cpu
