// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hub/remote_file.h"

namespace peng::hub {

// One GGUF model of a repository, in one file or several parts.
struct GgufModel {
  std::string name;                // the path without ".gguf" and without "-00001-of-00003"
  std::vector<std::string> paths;  // in the order of the parts
  bool complete = true;            // all parts are there
};

// The GGUF models among `paths`, by name. Files that go with a model but are none (mmproj-, imatrix) are left out.
std::vector<GgufModel> GgufModels(const std::vector<std::string>& paths);

// Whether the tag names this model: its name ends with the tag, or a folder of its path is the tag, in any case and on
// a boundary ("Q4_K" is not "Q4_K_M").
bool TagMatches(const GgufModel& model, std::string_view tag);

// Whether `path` matches one of the patterns, as in a shell but with '*' for '/' too. A pattern that ends with '/'
// takes what is in that folder.
bool MatchesAny(std::string_view path, const std::vector<std::string>& patterns);

struct Selection {
  std::string tag;                   // picks one GGUF model
  std::vector<std::string> include;  // patterns; empty = what peng needs to serve the model
  std::vector<std::string> exclude;  // patterns; they win over `include`
};

// The files to fetch: safetensors with their configuration, tokenizer, template and licence, or one GGUF model. Throws
// base::Error(kUsage) that starts with `name` and lists the choices, if there is nothing to serve, or several GGUF
// models and no tag.
std::vector<RemoteFile> SelectFiles(const std::string& name, const std::vector<RemoteFile>& files,
                                    const Selection& selection);

// The names that TAG may have, with their sizes, for a message: "Q4_0 (1.1 GB), Q8_0 (1.9 GB)".
std::string DescribeModels(const std::vector<GgufModel>& models, const std::vector<RemoteFile>& files);

std::string BytesText(int64_t bytes);

}  // namespace peng::hub
