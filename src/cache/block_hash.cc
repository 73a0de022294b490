// SPDX-License-Identifier: Apache-2.0
#include "cache/block_hash.h"

#include <cstring>

#include "base/sha256.h"

namespace peng::cache {

size_t BlockHashHasher::operator()(const BlockHash& h) const {
  size_t value;
  std::memcpy(&value, h.data(), sizeof(value));
  return value;
}

BlockHash RootHash(std::span<const uint8_t> process_seed, std::span<const uint8_t> salt) {
  // The length keeps (seed, salt) apart from (seed + start of the salt, rest of the salt).
  const int32_t seed_size = static_cast<int32_t>(process_seed.size());
  base::Sha256 sha;
  sha.Update(std::as_bytes(std::span(&seed_size, 1)));
  sha.Update(std::as_bytes(process_seed));
  sha.Update(std::as_bytes(salt));
  return sha.Finish();
}

BlockHash ChainHash(const BlockHash& parent, std::span<const int32_t> tokens, int32_t adapter_id) {
  base::Sha256 sha;
  sha.Update(std::as_bytes(std::span(parent)));
  sha.Update(std::as_bytes(std::span(&adapter_id, 1)));
  sha.Update(std::as_bytes(tokens));
  return sha.Finish();
}

}  // namespace peng::cache
