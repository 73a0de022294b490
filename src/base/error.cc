// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include "base/utf8.h"

namespace peng::base {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kEllipsis = "...";

// Anything that could start a new line, move the cursor or reverse the text of a terminal.
bool IsControl(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || (c >= 0x200E && c <= 0x200F) ||
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

std::string Join(std::string_view where, std::string_view what, std::string_view action) {
  std::string line(where);
  if (!line.empty() && !what.empty()) line += ": ";
  line += what;
  if (!line.empty() && !action.empty()) line += "; ";
  line += action;
  return line;
}

}  // namespace

Error::Error(ErrorKind kind, std::string_view where, std::string_view what, std::string_view action)
    : std::runtime_error(Join(where, what, action)), kind_(kind) {}

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t cut = 0;  // length of the longest prefix of `out` that leaves room for the ellipsis
  for (size_t pos = 0; pos < text.size();) {
    char32_t c = DecodeUtf8(text, &pos);
    if (c == kInvalidCodePoint || IsControl(c)) c = kReplacement;
    AppendUtf8(c, &out);
    if (out.size() > max_bytes) {
      out.resize(cut);
      return max_bytes < kEllipsis.size() ? out : out.append(kEllipsis);
    }
    if (out.size() + kEllipsis.size() <= max_bytes) cut = out.size();
  }
  return out;
}

}  // namespace peng::base
