// SPDX-License-Identifier: Apache-2.0
#include "formats/mapped_weights.h"

#include "base/error.h"

namespace peng::formats {
namespace {

[[noreturn]] void Refuse(const std::string& source, std::string_view name, const std::string& what,
                         std::string_view action = {}) {
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(source, 4096),
                    "tensor \"" + base::Printable(name, 120) + "\" " + what, action);
}

WeightInfo InfoOf(const MappedTensor& tensor) {
  WeightInfo info;
  info.rows = 1;
  for (size_t d = 0; d + 1 < tensor.shape.size(); ++d) info.rows *= tensor.shape[d];
  info.cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  info.format = *tensor.format;
  info.file_bytes = static_cast<int64_t>(tensor.bytes);
  return info;
}

std::string FormatList() {
  std::string list;
  for (const auto& info : tensor::AllFormats()) list += (list.empty() ? "" : ", ") + std::string(info.name);
  return list;
}

void CheckSlice(const std::string& source, std::string_view name, const WeightInfo& info, const Slice& slice) {
  const int64_t size = slice.dim == 0 ? info.rows : info.cols;
  const std::string range = "[" + std::to_string(slice.begin) + ", " + std::to_string(slice.end) + ")";
  if (slice.dim < 0 || slice.dim > 1 || slice.begin < 0 || slice.begin > slice.end || slice.end > size) {
    Refuse(source, name,
           "has no part " + range + " of its " + std::to_string(size) + (slice.dim == 0 ? " rows" : " columns"));
  }
  const int group = tensor::Info(info.format).block_values;
  if (slice.dim == 1 && (slice.begin % group != 0 || slice.end % group != 0)) {
    Refuse(source, name,
           "cannot be cut at columns " + range + ": format " + std::string(tensor::Info(info.format).name) +
               " stores " + std::to_string(group) + " values together",
           "use fewer ranks");
  }
}

}  // namespace

bool MappedWeights::Add(std::string name, MappedTensor tensor) {
  const auto bytes = static_cast<int64_t>(tensor.bytes);
  if (!tensors_.emplace(std::move(name), std::move(tensor)).second) return false;
  total_bytes_ += bytes;
  return true;
}

std::vector<std::string> MappedWeights::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

std::optional<WeightInfo> MappedWeights::Find(std::string_view name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return std::nullopt;
  if (!it->second.format) {
    Refuse(it->second.file->path(), name,
           "has type " + base::Printable(it->second.type_name, 40) + ", which is not supported",
           "use a file with " + FormatList());
  }
  return InfoOf(it->second);
}

tensor::Weight MappedWeights::Load(std::string_view name, std::optional<Slice> slice) const {
  const std::optional<WeightInfo> info = Find(name);
  if (!info) Refuse(source_, name, "is missing");
  const MappedTensor& tensor = tensors_.find(name)->second;
  if (slice) CheckSlice(tensor.file->path(), name, *info, *slice);

  const int64_t row_bytes = tensor::RowBytes(info->format, info->cols);
  tensor::Weight weight;
  weight.name = name;
  weight.rows = info->rows;
  weight.cols = info->cols;
  weight.format = info->format;
  tensor::Plane plane = {tensor.file->data() + tensor.offset, row_bytes, row_bytes};
  if (slice && slice->dim == 0) {
    weight.rows = slice->end - slice->begin;
    plane.data += slice->begin * row_bytes;
  } else if (slice) {
    weight.cols = slice->end - slice->begin;
    plane.data += tensor::RowBytes(info->format, slice->begin);
    plane.row_bytes = tensor::RowBytes(info->format, weight.cols);
  }
  weight.planes = {plane};
  weight.owner = tensor.file;
  // From the first byte of the part to its last; what a column slice skips in between is dropped too, which only costs
  // another read if somebody wants it.
  const auto begin = static_cast<size_t>(plane.data - tensor.file->data());
  const auto length =
      weight.rows == 0 ? 0 : static_cast<size_t>((weight.rows - 1) * plane.stride_bytes + plane.row_bytes);
  weight.check = [file = tensor.file] { file->CheckUnchanged(); };
  weight.release = [file = tensor.file, begin, length] {
    file->CheckUnchanged();
    file->Release(begin, length);
  };
  weight.prefetch = [file = tensor.file, begin, length] { file->Advise(base::Access::kWillNeed, begin, length); };
  return weight;
}

}  // namespace peng::formats
