// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "server/rate_limit.h"

namespace peng::server {

// An API key. Of the key itself only the digest is kept.
struct ApiKey {
  std::string name = {};  // for logs, limits and the prefix cache; several keys may share one
  base::Sha256Digest digest{};
  KeyLimits limits = {};
};

// The keys of a text, one a line: "NAME:KEY" or "NAME:sha256:DIGEST" in hexadecimal, then optionally rpm=N, tpm=N
// and concurrency=N in place of `defaults`. '#' begins a comment. Throws base::Error(kUsage) that names `where` and the
// line, never what stands in it.
std::vector<ApiKey> ParseKeyFile(std::string_view text, const std::string& where, const KeyLimits& defaults);

// Overwrites the text, so that it does not stay in freed memory.
void WipeText(std::string* text);

struct KeyRingOptions {
  std::vector<std::string> keys;  // named key-1, key-2 and so on, which no key of the file may be
  std::string file = {};          // empty = none
  KeyLimits limits = {};          // of keys without their own
};

// The keys that let a request in. Thread-safe.
class KeyRing {
 public:
  // Reads the file. Throws base::Error(kUsage).
  explicit KeyRing(KeyRingOptions options);

  // Reads the file again; requests under way keep what they have. Throws, and keeps the old keys, if it is faulty.
  void Reload();
  size_t size() const;

  // Null if no key is `text`. Every key is compared in full, so that the time tells nothing.
  std::shared_ptr<const ApiKey> Find(std::string_view text) const;

 private:
  using Keys = std::vector<ApiKey>;

  const std::string file_;
  const KeyLimits limits_;
  Keys fixed_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Keys> keys_;
};

// True if `text` has this digest; takes the same time for every text of a length.
bool HasDigest(std::string_view text, const base::Sha256Digest& digest);

}  // namespace peng::server
