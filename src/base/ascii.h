// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace peng::base {

// Letters A to Z become small; every other byte stays, whatever the locale.
std::string AsciiLower(std::string_view text);

// Without spaces, tabs and line ends on either side.
std::string_view TrimSpace(std::string_view text);

// "a, b, c"
std::string Joined(std::span<const std::string> texts);

}  // namespace peng::base
