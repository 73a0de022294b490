// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace peng::base {
namespace {

EVP_MD_CTX* Context(void* p) { return static_cast<EVP_MD_CTX*>(p); }

void Start(void* context) { PENG_CHECK(EVP_DigestInit_ex(Context(context), EVP_sha256(), nullptr) == 1); }

}  // namespace

void Sha256::FreeContext::operator()(void* context) const { EVP_MD_CTX_free(Context(context)); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  PENG_CHECK(context_ != nullptr);
  Start(context_.get());
}

void Sha256::Update(std::span<const std::byte> bytes) {
  PENG_CHECK(EVP_DigestUpdate(Context(context_.get()), bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int size = 0;
  PENG_CHECK(EVP_DigestFinal_ex(Context(context_.get()), digest.data(), &size) == 1 && size == digest.size());
  Start(context_.get());
  return digest;
}

Sha256Digest Sha256::Of(std::string_view text) {
  Sha256 sha;
  sha.Update(text);
  return sha.Finish();
}

std::string ToHex(const Sha256Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : digest) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

}  // namespace peng::base
