// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "text/bridge/bridge.h"

namespace peng::text {

inline PengStr ToBridge(std::string_view text) { return PengStr{text.data(), text.size()}; }
inline std::string_view FromBridge(PengStr text) { return {text.data, text.size}; }

// An owned buffer of the bridge.
class BridgeBuf {
 public:
  BridgeBuf() = default;
  ~BridgeBuf() { peng_buf_free(&buf_); }
  BridgeBuf(const BridgeBuf&) = delete;
  BridgeBuf& operator=(const BridgeBuf&) = delete;

  PengBuf* out() { return &buf_; }
  std::string_view view() const { return {buf_.data, buf_.size}; }

 private:
  PengBuf buf_{};
};

}  // namespace peng::text
