// SPDX-License-Identifier: Apache-2.0
#include "models/weight_loader.h"

#include "backend/dry_run.h"
#include "base/error.h"
#include "tensor/weight.h"

namespace peng::models {
namespace {

[[noreturn]] void Refuse(const formats::WeightMap& weights, std::string_view name, const std::string& what,
                         std::string_view action = {}) {
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(weights.source(), 4096),
                    "tensor \"" + base::Printable(name, 120) + "\" " + what, action);
}

std::string ShapeText(int64_t rows, int64_t cols) {
  return rows == 1 ? "[" + std::to_string(cols) + "]" : "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]";
}

// Bytes of the part of a tensor that a slice takes.
int64_t SliceBytes(const formats::WeightInfo& info, int64_t rows, int64_t cols) {
  return static_cast<int64_t>(static_cast<double>(info.file_bytes) * static_cast<double>(rows * cols) /
                              static_cast<double>(info.rows * info.cols));
}

}  // namespace

WeightLoader::WeightLoader(const formats::WeightMap& weights, backend::Backend& backend, Rank rank)
    : weights_(weights), backend_(backend), rank_(rank) {}

std::string WeightLoader::FullName(int layer, WeightName name) const {
  const bool hf = naming() == formats::Naming::kHf;
  const std::string_view own = hf ? name.hf : name.gguf;
  if (layer < 0) return std::string(own);
  return (hf ? "model.layers." : "blk.") + std::to_string(layer) + "." + std::string(own);
}

bool WeightLoader::Has(int layer, WeightName name) const { return weights_.Find(FullName(layer, name)).has_value(); }

formats::Naming WeightLoader::naming() const { return weights_.naming(); }

formats::WeightInfo WeightLoader::Check(const std::string& name, int64_t rows, int64_t cols) const {
  const std::optional<formats::WeightInfo> info = weights_.Find(name);
  if (!info) Refuse(weights_, name, "is missing", "the file is not complete or the config belongs to another model");
  if (info->rows != rows || info->cols != cols) {
    Refuse(weights_, name, "is " + ShapeText(info->rows, info->cols) + ", the config asks for " + ShapeText(rows, cols),
           "the config belongs to another model");
  }
  return *info;
}

std::optional<std::vector<float>> WeightLoader::ReadVector(int layer, WeightName name, int64_t cols) const {
  const std::string full_name = FullName(layer, name);
  if (!weights_.Find(full_name)) return std::nullopt;
  Check(full_name, 1, cols);
  std::vector<float> values(static_cast<size_t>(cols));
  tensor::DecodeRow(weights_.Load(full_name), 0, values.data());
  return values;
}

void WeightLoader::Want(Slot& slot, int layer, WeightName name, int64_t rows, int64_t cols, backend::WeightUse use,
                        std::optional<formats::Slice> slice, const backend::Partition& partition) {
  std::string full_name = FullName(layer, name);
  const formats::WeightInfo info = Check(full_name, rows, cols);
  if (slice) (slice->dim == 0 ? rows : cols) = slice->end - slice->begin;
  const int64_t bytes = SliceBytes(info, rows, cols);
  const int64_t kept = backend_.PreparedBytes(rows, cols, info.format, use);
  if (kept == 0) mapped_bytes_ += bytes;
  planned_bytes_ += kept;
  file_bytes_ += bytes;
  slot = std::make_unique<backend::PlannedWeight>(rows, cols);
  wanted_.push_back({&slot, std::move(full_name), use, slice, partition, bytes});
}

void WeightLoader::LoadAll(const Progress& progress) {
  std::vector<backend::PrepareJob> jobs;
  jobs.reserve(wanted_.size());
  for (const Wanted& wanted : wanted_) {
    jobs.push_back({weights_.Load(wanted.name, wanted.slice), wanted.use, wanted.partition, wanted.slot});
  }
  int64_t done = 0;
  backend_.PrepareAll(jobs, [&](size_t i) {
    done += wanted_[i].file_bytes;
    if (progress) progress(done, file_bytes_);
  });
  wanted_.clear();
}

}  // namespace peng::models
