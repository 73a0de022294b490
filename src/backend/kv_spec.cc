// SPDX-License-Identifier: Apache-2.0
#include "backend/kv_store.h"

namespace peng::backend {

int64_t KvSpec::BytesPerToken() const {
  const int planes = value_dim > 0 ? 2 : 1;
  const int64_t elements = static_cast<int64_t>(num_heads) * (head_dim + value_dim);
  const int64_t scales = static_cast<int64_t>(num_heads) * planes * scale_bytes_per_head;
  return num_layers * (elements * static_cast<int64_t>(tensor::DTypeBytes(dtype)) + scales);
}

}  // namespace peng::backend
