// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace peng::cache {

// Digest of a block's tokens and of all blocks before it: a SHA-256 chain, seeded per process, with an optional salt
// per request. Nobody who does not know the seed can find two prompts that share a digest.
using BlockHash = std::array<uint8_t, 32>;

struct BlockHashHasher {
  size_t operator()(const BlockHash& h) const;
};

// The parent of a sequence's first block.
BlockHash RootHash(std::span<const uint8_t> process_seed, std::span<const uint8_t> salt);
// The digest of one full block: `parent` is the digest of the block before it, or the root.
BlockHash ChainHash(const BlockHash& parent, std::span<const int32_t> tokens, int32_t adapter_id);

}  // namespace peng::cache
