// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"

// What every target asserts: input is refused with a one-line base::Error, and nothing else is ever thrown.
namespace peng::fuzz {

inline std::string_view Text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

inline std::span<const std::byte> Bytes(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

inline void Check(bool condition) {
  if (!condition) std::abort();
}

template <typename F>
void ExpectRefusalOnly(F&& body) {
  try {
    body();
  } catch (const base::Error& error) {
    const std::string_view message = error.what();
    Check(!message.empty() && message.size() < 4096);
    for (const char c : message) Check(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
}

}  // namespace peng::fuzz
