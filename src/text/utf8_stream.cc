// SPDX-License-Identifier: Apache-2.0
#include "text/utf8_stream.h"

#include <cstddef>

namespace peng::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the character that begins with `lead`; 0 if none does.
size_t SequenceLength(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// Whether `byte` may follow `pending`. The second byte has tighter bounds against overlong forms, surrogates and values
// above U+10FFFF.
bool Continues(std::string_view pending, unsigned char byte) {
  unsigned char low = 0x80, high = 0xBF;
  if (pending.size() == 1) {
    switch (static_cast<unsigned char>(pending[0])) {
      case 0xE0:
        low = 0xA0;
        break;
      case 0xED:
        high = 0x9F;
        break;
      case 0xF0:
        low = 0x90;
        break;
      case 0xF4:
        high = 0x8F;
        break;
    }
  }
  return byte >= low && byte <= high;
}

}  // namespace

void Utf8Stream::AppendByte(unsigned char byte, std::string* out) {
  if (!pending_.empty()) {
    if (Continues(pending_, byte)) {
      pending_.push_back(static_cast<char>(byte));
      if (pending_.size() == SequenceLength(static_cast<unsigned char>(pending_[0]))) {
        out->append(pending_);
        pending_.clear();
      }
      return;
    }
    out->append(kReplacement);
    pending_.clear();
  }
  if (byte < 0x80) {
    out->push_back(static_cast<char>(byte));
  } else if (SequenceLength(byte) > 0) {
    pending_.push_back(static_cast<char>(byte));
  } else {
    out->append(kReplacement);
  }
}

void Utf8Stream::Append(std::string_view bytes, std::string* out) {
  out->reserve(out->size() + bytes.size());
  for (const char c : bytes) AppendByte(static_cast<unsigned char>(c), out);
}

void Utf8Stream::Flush(std::string* out) {
  if (!pending_.empty()) out->append(kReplacement);
  pending_.clear();
}

}  // namespace peng::text
