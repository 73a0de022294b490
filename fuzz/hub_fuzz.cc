// SPDX-License-Identifier: Apache-2.0
// What hubs answer: whatever the bytes, the files of an accepted listing can be written below a folder.
#include "hub/listing.h"

#include "fuzz.h"
#include "hub/manifest.h"
#include "hub/repo_name.h"
#include "hub/select.h"

namespace {

using namespace peng;

void CheckFiles(const std::vector<hub::RemoteFile>& files) {
  for (const hub::RemoteFile& file : files) {
    fuzz::Check(!file.path.empty() && file.path.front() != '/' && file.path.find("..") != 0);
    fuzz::Check(file.path.find("/../") == std::string::npos && file.path.find('\\') == std::string::npos);
    fuzz::Check(file.sha256.empty() || file.sha256.size() == 64);
  }
  fuzz::ExpectRefusalOnly([&] {
    for (const hub::RemoteFile& file : hub::SelectFiles("org/m", files, {})) fuzz::Check(!file.path.empty());
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::Text(data, size);
  fuzz::ExpectRefusalOnly([&] { CheckFiles(hub::ParseHuggingFaceTree(text, "hub")); });
  fuzz::ExpectRefusalOnly([&] { CheckFiles(hub::ParseModelScopeFiles(text, "hub")); });
  fuzz::ExpectRefusalOnly([&] { fuzz::Check(hub::ParseHuggingFaceCommit(text, "hub").size() == 40); });
  fuzz::ExpectRefusalOnly([&] {
    const hub::Manifest manifest = hub::ParseManifest(text, "manifest");
    CheckFiles(manifest.files);
    fuzz::Check(hub::WriteManifest(hub::ParseManifest(hub::WriteManifest(manifest), "again")) ==
                hub::WriteManifest(manifest));
  });
  (void)hub::NextPage(text);
  (void)hub::ParseRefusal(text);
  if (const auto name = hub::ParseRepoName(text)) fuzz::Check(name->text() == text);
  return 0;
}
