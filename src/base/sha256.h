// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace peng::base {

using Sha256Digest = std::array<uint8_t, 32>;

// Incremental SHA-256.
class Sha256 {
 public:
  Sha256();

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text) { Update(std::as_bytes(std::span(text.data(), text.size()))); }

  // The digest of everything since construction or the last Finish(); the object starts afresh.
  Sha256Digest Finish();

  static Sha256Digest Of(std::string_view text);

 private:
  struct FreeContext {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, FreeContext> context_;
};

// 64 small hexadecimal digits.
std::string ToHex(const Sha256Digest& digest);

}  // namespace peng::base
