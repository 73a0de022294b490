// SPDX-License-Identifier: Apache-2.0
#include "hub/checksum.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/check.h"

namespace peng::hub {
namespace {

EVP_MD_CTX* Context(void* p) { return static_cast<EVP_MD_CTX*>(p); }

}  // namespace

void Checksum::FreeContext::operator()(void* context) const { EVP_MD_CTX_free(Context(context)); }

Checksum::Checksum(const RemoteFile& file) : file_(file) {
  // git's name for a blob begins with its size.
  if (file.sha256.empty() && !file.git_sha1.empty() && file.size >= 0) {
    git_sum_.reset(EVP_MD_CTX_new());
    PENG_CHECK(git_sum_ != nullptr);
  }
  Restart();
}

Checksum::~Checksum() = default;

void Checksum::Restart() {
  bytes_ = 0;
  (void)sha256_sum_.Finish();
  if (git_sum_ == nullptr) return;
  const std::string head = "blob " + std::to_string(file_.size);
  PENG_CHECK(EVP_DigestInit_ex(Context(git_sum_.get()), EVP_sha1(), nullptr) == 1);
  PENG_CHECK(EVP_DigestUpdate(Context(git_sum_.get()), head.c_str(), head.size() + 1) == 1);
}

void Checksum::Update(std::string_view bytes) {
  bytes_ += static_cast<int64_t>(bytes.size());
  sha256_sum_.Update(bytes);
  if (git_sum_ != nullptr) PENG_CHECK(EVP_DigestUpdate(Context(git_sum_.get()), bytes.data(), bytes.size()) == 1);
}

bool Checksum::UpdateFromFile(int fd, int64_t bytes) {
  std::vector<char> buffer(size_t{1} << 20);
  for (int64_t at = 0; at < bytes;) {
    const auto want = static_cast<size_t>(std::min<int64_t>(bytes - at, static_cast<int64_t>(buffer.size())));
    const ssize_t got = ::pread(fd, buffer.data(), want, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    Update({buffer.data(), static_cast<size_t>(got)});
    at += got;
  }
  return true;
}

void Checksum::Finish() {
  sha256_ = base::ToHex(sha256_sum_.Finish());
  if (git_sum_ == nullptr) return;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  PENG_CHECK(EVP_DigestFinal_ex(Context(git_sum_.get()), digest, &size) == 1);
  static constexpr char kDigits[] = "0123456789abcdef";
  git_.clear();
  for (unsigned int i = 0; i < size; ++i) git_ += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
}

std::string Checksum::Difference() const {
  if (!file_.sha256.empty() && file_.sha256 != sha256_) {
    return "has SHA-256 " + sha256_ + ", not " + file_.sha256;
  }
  if (git_sum_ != nullptr && file_.git_sha1 != git_) return "has git blob SHA-1 " + git_ + ", not " + file_.git_sha1;
  return "";
}

}  // namespace peng::hub
