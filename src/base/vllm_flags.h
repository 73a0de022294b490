// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace peng::base {

// Flags of vLLM that peng does not have, with why or what to use instead.
struct VllmFlags {
  std::string_view names;  // without dashes in front, separated by spaces
  std::string_view instead;
};

// The one table of them, which docs/from-vllm.md shows.
std::span<const VllmFlags> VllmFlagTable();

// What the table says of a flag ("no-" in front and what follows a '.' are parts of vLLM's spellings); empty for any
// other name. '-' and '_' mean the same.
std::string_view ReasonAgainst(std::string_view name);

}  // namespace peng::base
