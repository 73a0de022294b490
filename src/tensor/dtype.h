// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace peng::tensor {

// Element type of activations and of the KV cache. What a weight's file bytes mean is a Format (format.h), so that no
// elementwise code can be handed a block format.
enum class DType : uint8_t { kF32, kF16, kBF16, kI8, kI32 };

size_t DTypeBytes(DType type);
const char* DTypeName(DType type);

}  // namespace peng::tensor
