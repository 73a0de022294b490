// SPDX-License-Identifier: Apache-2.0
#include "server/key_ring.h"

#include <openssl/crypto.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace peng::server {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr size_t kMaxNameBytes = 64;
constexpr std::string_view kSpaces = " \t\r";

[[noreturn]] void Refuse(const std::string& where, const std::string& what, const std::string& action) {
  throw base::Error(base::ErrorKind::kUsage, where, what, action);
}

// The next word of a line, taken off it; empty at its end or at a comment.
std::string_view NextWord(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(kSpaces), line->size()));
  if (line->starts_with('#')) *line = {};
  const std::string_view word = line->substr(0, line->find_first_of(kSpaces));
  line->remove_prefix(word.size());
  return word;
}

bool IsName(std::string_view text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.size() <= kMaxNameBytes && std::all_of(text.begin(), text.end(), fits);
}

std::optional<base::Sha256Digest> FromHex(std::string_view text) {
  base::Sha256Digest digest{};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const char* begin = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, digest[i], 16);
    if (error != std::errc() || end != begin + 2) return std::nullopt;
  }
  return digest;
}

void ReadLimit(std::string_view word, const std::string& where, KeyLimits* limits) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  int64_t* target = nullptr;
  if (name == "rpm") target = &limits->requests_per_minute;
  if (name == "tpm") target = &limits->tokens_per_minute;
  if (name == "concurrency") target = &limits->max_concurrency;
  const std::string_view digits = equals < word.size() ? word.substr(equals + 1) : std::string_view();
  int64_t value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (target == nullptr || !whole || value < 0 || value > (int64_t{1} << 60)) {
    Refuse(where, "what follows the key is no limit", "use rpm=N, tpm=N or concurrency=N; keys have no spaces");
  }
  *target = value;
}

ApiKey ReadLine(std::string_view word, std::string_view rest, const std::string& where, const KeyLimits& defaults) {
  constexpr std::string_view kHashed = "sha256:";
  constexpr const char* kForms = "write NAME:KEY or NAME:sha256:DIGEST";
  const size_t colon = word.find(':');
  if (colon == std::string_view::npos || word.starts_with(kHashed)) Refuse(where, "the key has no name", kForms);
  if (!IsName(word.substr(0, colon))) {
    Refuse(where, "the name before ':' is not valid", "use up to 64 letters, digits, '-', '_' and '.'");
  }
  ApiKey key{.name = std::string(word.substr(0, colon)), .limits = defaults};
  word.remove_prefix(colon + 1);
  if (word.empty()) Refuse(where, "the key is empty", kForms);
  if (word.starts_with(kHashed)) {
    const auto digest = FromHex(word.substr(kHashed.size()));
    if (!digest) Refuse(where, "the SHA-256 digest is not valid", "write its 64 hexadecimal digits");
    key.digest = *digest;
  } else {
    key.digest = base::Sha256::Of(word);
  }
  for (std::string_view limit = NextWord(&rest); !limit.empty(); limit = NextWord(&rest)) {
    ReadLimit(limit, where, &key.limits);
  }
  return key;
}

// Accounts are kept by name: two limits for one would refill it with every change of key.
void CheckLimitsAgree(const std::vector<ApiKey>& keys, const ApiKey& key, const std::string& where) {
  for (const ApiKey& other : keys) {
    if (other.name == key.name && other.limits != key.limits) {
      Refuse(where, "\"" + key.name + "\" has other limits here than above", "give its keys the same limits");
    }
  }
}

// The name of a key of the command line would be one account with two limits, and one client in the log.
void CheckNamesDiffer(const std::vector<ApiKey>& flags, const std::vector<ApiKey>& read, const std::string& where) {
  for (const ApiKey& key : read) {
    const bool taken = std::any_of(flags.begin(), flags.end(), [&](const ApiKey& f) { return f.name == key.name; });
    if (taken) Refuse(where, "\"" + key.name + "\" is the name of a key of --api-key", "give the key another name");
  }
}

void WarnIfOthersMayRead(const std::string& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0 || (status.st_mode & (S_IRGRP | S_IROTH)) == 0) return;
  base::LogWarning("{} can be read by other users of this machine; chmod 600 keeps the keys private", file);
}

}  // namespace

void WipeText(std::string* text) {
  OPENSSL_cleanse(text->data(), text->size());
  text->clear();
}

bool HasDigest(std::string_view text, const base::Sha256Digest& digest) {
  const base::Sha256Digest given = base::Sha256::Of(text);
  return CRYPTO_memcmp(given.data(), digest.data(), digest.size()) == 0;
}

std::vector<ApiKey> ParseKeyFile(std::string_view text, const std::string& where, const KeyLimits& defaults) {
  std::vector<ApiKey> keys;
  int number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string at = where + ": line " + std::to_string(++number);
    const std::string_view word = NextWord(&line);
    if (word.empty()) continue;
    ApiKey key = ReadLine(word, line, at, defaults);
    CheckLimitsAgree(keys, key, at);
    keys.push_back(std::move(key));
  }
  return keys;
}

KeyRing::KeyRing(KeyRingOptions options) : file_(std::move(options.file)), limits_(options.limits) {
  for (std::string& key : options.keys) {
    if (key.empty()) Refuse("--api-key", "is empty", "give a key, or leave it out to serve without");
    fixed_.push_back({"key-" + std::to_string(fixed_.size() + 1), base::Sha256::Of(key), limits_});
    WipeText(&key);
  }
  Reload();
}

void KeyRing::Reload() {
  auto keys = std::make_shared<Keys>(fixed_);
  if (!file_.empty()) {
    std::string text = base::ReadFile(file_, kMaxFileBytes, base::ErrorKind::kUsage);
    Keys read;
    try {
      read = ParseKeyFile(text, base::Printable(file_, 4096), limits_);
    } catch (...) {
      WipeText(&text);
      throw;
    }
    WipeText(&text);
    // An emptied file must not open the server to everyone.
    if (read.empty()) Refuse(base::Printable(file_, 4096), "holds no keys", "add one, or leave --api-key-file out");
    CheckNamesDiffer(fixed_, read, base::Printable(file_, 4096));
    WarnIfOthersMayRead(file_);
    keys->insert(keys->end(), read.begin(), read.end());
  }
  const std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
}

size_t KeyRing::size() const {
  const std::lock_guard lock(mutex_);
  return keys_->size();
}

std::shared_ptr<const ApiKey> KeyRing::Find(std::string_view text) const {
  std::shared_ptr<const Keys> keys;
  {
    const std::lock_guard lock(mutex_);
    keys = keys_;
  }
  const base::Sha256Digest given = base::Sha256::Of(text);
  const ApiKey* found = nullptr;
  for (const ApiKey& key : *keys) {
    if (CRYPTO_memcmp(key.digest.data(), given.data(), given.size()) == 0) found = &key;
  }
  return found == nullptr ? nullptr : std::shared_ptr<const ApiKey>(keys, found);
}

}  // namespace peng::server
