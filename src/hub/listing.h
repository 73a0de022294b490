// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hub/remote_file.h"

namespace peng::hub {

// Replies of hubs, which are other people's bytes: each parser throws base::Error(kRuntime) that starts with `where`.
// Listings that are larger than this are refused, page by page.
inline constexpr size_t kMaxListingBytes = size_t{8} << 20;
inline constexpr size_t kMaxListedFiles = 100'000;

// The commit that a revision stands for, from the Hugging Face reply about a model at a revision.
std::string ParseHuggingFaceCommit(std::string_view json, std::string_view where);

// One page of a Hugging Face tree: a list of files and folders. Only files are kept.
std::vector<RemoteFile> ParseHuggingFaceTree(std::string_view json, std::string_view where);

// ModelScope's list of files: {"Data": {"Files": [...]}}.
std::vector<RemoteFile> ParseModelScopeFiles(std::string_view json, std::string_view where);

// The address of the next page in a Link header (`<URL>; rel="next"`); empty if there is none.
std::string NextPage(std::string_view link_header);

// What a hub says about its refusal: the text of "error", "Message" or "message" in a JSON reply, printable and short.
std::string ParseRefusal(std::string_view json);

}  // namespace peng::hub
