// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace peng::hub {

// Throws base::Error(kRuntime) for errno: `path` is where, `what` what could not be done; a full disk says what to do.
[[noreturn]] void FailOnDisk(const char* what, const std::string& path);

// Whether `path` itself, no link, is a regular file.
bool IsRegularFile(const std::string& path);

// Makes the folders of `relative` below `root` that are missing; none of them may be a link. Throws base::Error.
void MakeFoldersBelow(const std::string& root, const std::string& relative);

// Makes `path` and the folders above it.
void MakeFolders(const std::string& path);

// Writes a folder's entries to disk, on file systems that can.
void SyncFolder(const std::string& path);

// Throws base::Error(kRuntime) if `folder`'s file system has less than `bytes` free.
void CheckSpace(const std::string& folder, int64_t bytes);

}  // namespace peng::hub
