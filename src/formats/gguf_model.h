// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mmap.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "formats/mapped_weights.h"

namespace peng::formats {

// A GGUF model: one file, or all parts of a split one. The first part has the metadata.
struct GgufModel {
  struct Part {
    std::shared_ptr<const base::MappedFile> mapped;
    GgufFile file;
  };
  std::vector<Part> parts;

  const GgufFile& header() const { return parts[0].file; }
};

// Opens `path`, the only or the first file of a model; the other parts ("...-00002-of-00003.gguf") lie beside it.
// Throws base::Error (kModelFile) naming the part that is missing, wrong or out of order.
GgufModel OpenGgufModel(const std::string& path);

std::unique_ptr<MappedWeights> GgufWeights(const GgufModel& model, const std::string& path);

// The hyperparameters under their Hugging Face names (gguf_config.cc). Throws base::Error (kModelFile).
ModelConfig GgufConfig(const GgufFile& file, const MappedWeights& weights);

// The keys "tokenizer.ggml.*"; faults are left to the tokenizer, which knows the kinds.
TokenizerData GgufTokenizer(const GgufFile& file);

}  // namespace peng::formats
