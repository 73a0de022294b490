// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace peng::text {

// Bytes in, valid UTF-8 out, in pieces of any size: the joined output does not depend on the cuts. A sequence that may
// still become a character is withheld; one that cannot becomes one U+FFFD per maximal part of a character, as in the
// WHATWG decoder.
class Utf8Stream {
 public:
  // Appends to `out` what `bytes` settles.
  void Append(std::string_view bytes, std::string* out);
  // Ends the stream: what is withheld becomes U+FFFD.
  void Flush(std::string* out);
  // True if bytes are withheld.
  bool pending() const { return !pending_.empty(); }

 private:
  void AppendByte(unsigned char byte, std::string* out);

  std::string pending_;  // a proper prefix of a character, at most 3 bytes
};

}  // namespace peng::text
