// SPDX-License-Identifier: Apache-2.0
// Archives of models: what is accepted are the files of the manifest, whole and in their size.
#include "hub/archive.h"

#include <algorithm>
#include <cstring>

#include "fuzz.h"

namespace {

using namespace peng;

class Sink final : public hub::ArchiveSink {
 public:
  void Begin(const hub::Manifest& manifest) override { left_ = manifest.files.size(); }
  void BeginFile(const hub::RemoteFile& file) override {
    fuzz::Check(hub::PathFault(file.path).empty());
    bytes_ = 0;
  }
  void Write(std::string_view bytes) override { bytes_ += static_cast<int64_t>(bytes.size()); }
  void EndFile(const hub::RemoteFile& file) override {
    fuzz::Check(bytes_ == file.size && left_ > 0);
    --left_;
  }
  size_t left() const { return left_; }

 private:
  size_t left_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  size_t at = 0;
  const auto read = [&](std::span<char> buffer) {
    const size_t got = std::min(buffer.size(), size - at);
    if (got != 0) std::memcpy(buffer.data(), data + at, got);
    at += got;
    return got;
  };
  fuzz::ExpectRefusalOnly([&] {
    Sink sink;
    hub::ReadArchive(read, "archive", sink);
    fuzz::Check(sink.left() == 0);
  });
  return 0;
}
