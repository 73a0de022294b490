// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace peng::base {

inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFF;

// Decodes the code point at `*pos` (< text.size()) and moves `*pos` behind it. Overlong forms, surrogates, values above
// U+10FFFF and cut sequences give kInvalidCodePoint; `*pos` then moves behind the longest valid prefix (at least one
// byte), so that one broken character is one replacement.
char32_t DecodeUtf8(std::string_view text, size_t* pos);

bool IsValidUtf8(std::string_view text);

// Appends `code_point` (a Unicode scalar value).
void AppendUtf8(char32_t code_point, std::string* out);

}  // namespace peng::base
