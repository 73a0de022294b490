// SPDX-License-Identifier: Apache-2.0
#include "formats/checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "formats/gguf_model.h"
#include "formats/hf_model.h"
#include "formats/safetensors.h"

namespace peng::formats {
namespace {

namespace fs = std::filesystem;

void OpenGguf(const std::string& path, Checkpoint& checkpoint) {
  const GgufModel model = OpenGgufModel(path);
  const GgufFile& header = model.header();
  auto weights = GgufWeights(model, path);
  checkpoint.config = GgufConfig(header, *weights);
  checkpoint.weights = std::move(weights);
  checkpoint.tokenizer = GgufTokenizer(header);
  checkpoint.chat_template = header.String("tokenizer.chat_template");
  checkpoint.chat_template_source = header.path();
  const TokenizerData& t = checkpoint.tokenizer;
  for (const auto& id : {t.eos_id, t.eot_id, t.eom_id})
    if (id) checkpoint.eos_token_ids.push_back(*id);
}

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

Checkpoint OpenCheckpoint(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const std::string where = base::Printable(path, 4096);
  if (!fs::exists(status)) {
    throw base::Error(base::ErrorKind::kModelFile, where, "there is no such file or folder",
                      "name one that is there, or a model of a hub as ORG/NAME");
  }

  Checkpoint checkpoint;
  checkpoint.path = path;
  if (fs::is_directory(status)) {
    ReadHfFolder(path, checkpoint);
    checkpoint.weights = OpenSafetensorsFolder(path);
  } else if (path.ends_with(".safetensors")) {
    ReadHfFolder(FolderOf(path), checkpoint);
    checkpoint.weights = OpenSafetensorsFile(path);
  } else if (path.ends_with(".gguf")) {
    OpenGguf(path, checkpoint);
  } else {
    throw base::Error(base::ErrorKind::kModelFile, where, "is no model file",
                      "name a .gguf or .safetensors file, or a folder in Hugging Face's layout");
  }
  std::vector<int32_t>& ids = checkpoint.eos_token_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return checkpoint;
}

}  // namespace peng::formats
