// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf_model.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "base/error.h"

namespace peng::formats {
namespace {

constexpr int64_t kMaxParts = 10'000;
constexpr char kSplitNo[] = "split.no";
constexpr char kSplitCount[] = "split.count";
constexpr char kSplitTensors[] = "split.tensors.count";

[[noreturn]] void Refuse(const std::string& path, const std::string& what, std::string_view action = {}) {
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(path, 4096), what, action);
}

GgufModel::Part OpenPart(const std::string& path) {
  auto mapped = std::make_shared<const base::MappedFile>(path);
  GgufFile file(path, mapped->bytes());
  return {std::move(mapped), std::move(file)};
}

// "-00002-of-00003.gguf"
std::string PartSuffix(int64_t number, int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05lld-of-%05lld.gguf", static_cast<long long>(number),
                static_cast<long long>(count));
  return text;
}

std::string Name(const std::string& path) {
  return base::Printable(std::filesystem::path(path).filename().string(), 200);
}

int64_t PartNumber(const GgufFile& file) { return file.Int(kSplitNo, 0, kMaxParts).value_or(0); }
int64_t PartCount(const GgufFile& file) { return file.Int(kSplitCount, 0, kMaxParts).value_or(1); }

// The part's path without its suffix; the first part must be called what the others are called.
std::string PathPrefix(const std::string& path, const GgufFile& first, int64_t count) {
  const int64_t number = PartNumber(first);
  const std::string suffix = PartSuffix(number + 1, count);
  const bool named = path.ends_with(suffix);
  if (number != 0) {
    const std::string first_name =
        named ? Name(path.substr(0, path.size() - suffix.size()) + PartSuffix(1, count)) : "part 1";
    Refuse(path, "is part " + std::to_string(number + 1) + " of " + std::to_string(count) + " of a split model",
           "open " + first_name);
  }
  if (!named) {
    Refuse(path, "is part 1 of " + std::to_string(count) + " of a split model, but its name does not end in " + suffix,
           "give the parts their names back");
  }
  return path.substr(0, path.size() - suffix.size());
}

void CheckPart(const std::string& path, const GgufFile& part, int64_t number, int64_t count) {
  if (PartCount(part) == count && PartNumber(part) == number) return;
  Refuse(path,
         "is part " + std::to_string(PartNumber(part) + 1) + " of " + std::to_string(PartCount(part)) +
             " of a split model, expected part " + std::to_string(number + 1) + " of " + std::to_string(count),
         "parts were renamed or mixed");
}

}  // namespace

GgufModel OpenGgufModel(const std::string& path) {
  GgufModel model;
  model.parts.push_back(OpenPart(path));
  const int64_t count = PartCount(model.header());
  if (count <= 1) return model;

  const std::string prefix = PathPrefix(path, model.header(), count);
  size_t num_tensors = model.header().tensors().size();
  for (int64_t number = 1; number < count; ++number) {
    const std::string part_path = prefix + PartSuffix(number + 1, count);
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(part_path, ignored)) {
      Refuse(part_path, "is missing, part " + std::to_string(number + 1) + " of " + std::to_string(count),
             "all parts of a split model lie in one folder");
    }
    model.parts.push_back(OpenPart(part_path));
    CheckPart(part_path, model.parts.back().file, number, count);
    num_tensors += model.parts.back().file.tensors().size();
  }
  const auto expected = model.header().Int(kSplitTensors, 0, std::numeric_limits<int64_t>::max());
  if (expected && static_cast<size_t>(*expected) != num_tensors) {
    Refuse(path, "says that its parts have " + std::to_string(*expected) + " tensors, they have " +
                     std::to_string(num_tensors));
  }
  return model;
}

std::unique_ptr<MappedWeights> GgufWeights(const GgufModel& model, const std::string& path) {
  auto weights = std::make_unique<MappedWeights>(Naming::kGguf, path);
  for (const GgufModel::Part& part : model.parts) {
    for (const GgufTensor& tensor : part.file.tensors()) {
      MappedTensor mapped;
      mapped.shape.assign(tensor.shape.rbegin(), tensor.shape.rend());
      mapped.type_name = tensor.type_name;
      mapped.format = tensor.format;
      mapped.file = part.mapped;
      mapped.offset = tensor.offset;
      mapped.bytes = tensor.bytes;
      if (!weights->Add(tensor.name, std::move(mapped))) {
        Refuse(part.file.path(),
               "has tensor \"" + base::Printable(tensor.name, 120) + "\", which an earlier part has too");
      }
    }
  }
  return weights;
}

TokenizerData GgufTokenizer(const GgufFile& file) {
  constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();
  const auto id = [&](std::string_view key) -> std::optional<int32_t> {
    // Files write -1 or 2^32 - 1 for "none".
    const auto value = file.Int(key, -1, std::numeric_limits<uint32_t>::max());
    if (!value || *value < 0 || *value > kMaxId) return std::nullopt;
    return static_cast<int32_t>(*value);
  };
  TokenizerData data;
  data.source = file.path();
  data.model = file.String("tokenizer.ggml.model").value_or("");
  data.pre = file.String("tokenizer.ggml.pre").value_or("");
  data.tokens = file.Strings("tokenizer.ggml.tokens").value_or(std::vector<std::string>());
  data.scores = file.Floats("tokenizer.ggml.scores").value_or(std::vector<float>());
  data.merges = file.Strings("tokenizer.ggml.merges").value_or(std::vector<std::string>());
  for (const int64_t type : file.Ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>())) {
    if (type < 0 || type > 100) file.Refuse("tokenizer.ggml.token_type", "has type " + std::to_string(type));
    data.token_types.push_back(static_cast<int32_t>(type));
  }
  data.bos_id = id("tokenizer.ggml.bos_token_id");
  data.eos_id = id("tokenizer.ggml.eos_token_id");
  data.eot_id = id("tokenizer.ggml.eot_token_id");
  data.eom_id = id("tokenizer.ggml.eom_token_id");
  data.unk_id = id("tokenizer.ggml.unknown_token_id");
  data.pad_id = id("tokenizer.ggml.padding_token_id");
  data.add_bos = file.Bool("tokenizer.ggml.add_bos_token");
  data.add_eos = file.Bool("tokenizer.ggml.add_eos_token");
  data.add_space_prefix = file.Bool("tokenizer.ggml.add_space_prefix");
  return data;
}

}  // namespace peng::formats
