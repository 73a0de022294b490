// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <cstdint>

namespace peng::base {
namespace {

struct Lead {
  int continuation_bytes;  // -1: not a lead byte
  uint8_t first_low;       // range of the first continuation byte: it excludes overlong forms and surrogates
  uint8_t first_high;
};

Lead ClassifyLead(uint8_t b) {
  if (b < 0x80) return {0, 0, 0};
  if (b < 0xC2) return {-1, 0, 0};
  if (b < 0xE0) return {1, 0x80, 0xBF};
  if (b == 0xE0) return {2, 0xA0, 0xBF};
  if (b == 0xED) return {2, 0x80, 0x9F};
  if (b < 0xF0) return {2, 0x80, 0xBF};
  if (b == 0xF0) return {3, 0x90, 0xBF};
  if (b < 0xF4) return {3, 0x80, 0xBF};
  if (b == 0xF4) return {3, 0x80, 0x8F};
  return {-1, 0, 0};
}

}  // namespace

char32_t DecodeUtf8(std::string_view text, size_t* pos) {
  const uint8_t lead_byte = static_cast<uint8_t>(text[(*pos)++]);
  const Lead lead = ClassifyLead(lead_byte);
  if (lead.continuation_bytes == 0) return lead_byte;
  if (lead.continuation_bytes < 0) return kInvalidCodePoint;
  char32_t code = lead_byte & (0x3F >> lead.continuation_bytes);
  for (int i = 0; i < lead.continuation_bytes; ++i) {
    if (*pos >= text.size()) return kInvalidCodePoint;
    const uint8_t b = static_cast<uint8_t>(text[*pos]);
    const uint8_t low = i == 0 ? lead.first_low : 0x80;
    const uint8_t high = i == 0 ? lead.first_high : 0xBF;
    if (b < low || b > high) return kInvalidCodePoint;
    code = (code << 6) | (b & 0x3F);
    ++*pos;
  }
  return code;
}

bool IsValidUtf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    if (DecodeUtf8(text, &pos) == kInvalidCodePoint) return false;
  }
  return true;
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (c >> 18)));
    out->push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

}  // namespace peng::base
