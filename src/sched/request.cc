// SPDX-License-Identifier: Apache-2.0
#include "sched/request.h"

#include <span>
#include <string>

namespace peng::sched {

void Request::HashBlocks(int num_blocks, int block_size, const std::vector<uint8_t>& seed) {
  while (static_cast<int>(hashes.size()) < num_blocks) {
    const std::string& salt = spec->cache_salt;
    const cache::BlockHash parent =
        hashes.empty() ? cache::RootHash(seed, {reinterpret_cast<const uint8_t*>(salt.data()), salt.size()})
                       : hashes.back();
    const std::span<const int32_t> block(tokens.data() + hashes.size() * block_size, block_size);
    hashes.push_back(cache::ChainHash(parent, block, spec->adapter_id));
  }
}

}  // namespace peng::sched
