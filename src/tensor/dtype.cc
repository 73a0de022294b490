// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

namespace peng::tensor {

size_t DTypeBytes(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI8:
      return 1;
  }
  return 0;
}

const char* DTypeName(DType type) {
  switch (type) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kI8:
      return "int8";
    case DType::kI32:
      return "int32";
  }
  return "unknown";
}

}  // namespace peng::tensor
