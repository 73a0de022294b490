// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "hub/progress.h"
#include "hub/remote.h"

namespace peng::hub {

struct FetchedFile {
  std::string sha256;
  int64_t size = 0;
};

// Fetches one file of a model into `partial`, synced, and checks it. Bytes that an earlier try left in `partial` are
// kept if the server goes on behind them. A file whose checksum is wrong is removed and fetched once more. Throws
// base::Error that names the file; `partial` then holds what can be gone on with.
FetchedFile DownloadFile(HttpClient& client, const Remote& remote, const RemoteFile& file, const std::string& partial,
                         Progress& progress);

}  // namespace peng::hub
