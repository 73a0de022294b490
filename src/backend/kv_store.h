// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace peng::backend {

enum class KvKind : uint8_t { kFull, kLatent, kIndexer };

// One group of cached state of a model: `num_layers` layers that each keep the same thing per token. A model returns a
// list of them.
struct KvSpec {
  KvKind kind = KvKind::kFull;
  int num_layers = 0;
  int num_heads = 0;  // KV heads; 1 for kLatent
  int head_dim = 0;   // K; latent: rank + rope part
  int value_dim = 0;  // V; 0 when nothing but K is kept
  tensor::DType dtype = tensor::DType::kBF16;
  int scale_bytes_per_head = 0;  // scale planes of quantized caches, per token, head and plane

  int64_t BytesPerToken() const;
};

// The memory of the KV cache, owned by the backend. Above it only block ids exist: 0 <= id < num_blocks. Block 0 is
// never handed out by the block pool, so that a zeroed table is harmless.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual int block_size() const = 0;  // tokens
  virtual int num_blocks() const = 0;
  virtual int64_t BlockBytes() const = 0;  // over all shards and groups, with alignment

  virtual void CopyBlock(int from, int to) = 0;
  // For tiers outside the device: a block's bytes in a layout that only ImportBlock of an equal store understands.
  virtual std::vector<std::byte> ExportBlock(int id) const = 0;
  virtual void ImportBlock(int id, std::span<const std::byte> bytes) = 0;
};

}  // namespace peng::backend
