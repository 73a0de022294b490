// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "formats/byte_reader.h"
#include "formats/gguf_types.h"

namespace peng::formats {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 1024;
constexpr int kMaxArrayDepth = 4;
constexpr int64_t kMaxAlignment = 1 << 20;
constexpr int64_t kDefaultAlignment = 32;
// The smallest entries that the format allows: what a count may promise is bounded by what is left of the file.
constexpr uint64_t kMinMetadataBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

std::string Quoted(std::string_view name) { return "\"" + base::Printable(name, 120) + "\""; }

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Bytes of one element of a fixed size; 0 for strings and arrays.
uint64_t ScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

GgufType ReadType(ByteReader& in, std::string_view what) {
  const auto type = in.Read<uint32_t>(what);
  if (type > static_cast<uint32_t>(GgufType::kF64)) {
    in.Refuse(std::string(what) + " has unknown value type " + std::to_string(type));
  }
  return static_cast<GgufType>(type);
}

std::string_view ReadString(ByteReader& in, std::string_view what, uint64_t max_bytes) {
  const auto length = in.Read<uint64_t>(what);
  if (length > max_bytes) {
    in.Refuse(std::string(what) + " is a string of " + std::to_string(length) + " bytes, at most " +
              std::to_string(max_bytes) + " are allowed");
  }
  return AsText(in.Bytes(length, what));
}

std::string_view ReadString(ByteReader& in, std::string_view what) {
  return ReadString(in, what, std::numeric_limits<uint64_t>::max());
}

GgufArray ReadArray(ByteReader& in, std::span<const std::byte> file, std::string_view what, int depth) {
  if (depth > kMaxArrayDepth) in.Refuse(std::string(what) + " has arrays nested too deeply");
  GgufArray array;
  array.element = ReadType(in, what);
  array.count = in.Read<uint64_t>(what);
  const uint64_t smallest = std::max<uint64_t>(ScalarBytes(array.element), 1);
  if (array.count > in.remaining() / smallest) {
    in.Refuse(std::string(what) + " is an array of " + std::to_string(array.count) + " elements, more than the " +
              std::to_string(in.remaining()) + " bytes that are left of the file");
  }
  const size_t begin = in.position();
  if (array.element == GgufType::kString) {
    for (uint64_t i = 0; i < array.count; ++i) ReadString(in, what);
  } else if (array.element == GgufType::kArray) {
    for (uint64_t i = 0; i < array.count; ++i) ReadArray(in, file, what, depth + 1);
  } else {
    in.Bytes(array.count * smallest, what);
  }
  array.bytes = file.subspan(begin, in.position() - begin);
  return array;
}

GgufValue ReadScalar(ByteReader& in, GgufType type, std::string_view what) {
  switch (type) {
    case GgufType::kU8:
      return uint64_t{in.Read<uint8_t>(what)};
    case GgufType::kI8:
      return int64_t{in.Read<int8_t>(what)};
    case GgufType::kU16:
      return uint64_t{in.Read<uint16_t>(what)};
    case GgufType::kI16:
      return int64_t{in.Read<int16_t>(what)};
    case GgufType::kU32:
      return uint64_t{in.Read<uint32_t>(what)};
    case GgufType::kI32:
      return int64_t{in.Read<int32_t>(what)};
    case GgufType::kF32:
      return double{in.Read<float>(what)};
    case GgufType::kBool:
      return in.Read<uint8_t>(what) != 0;
    case GgufType::kU64:
      return in.Read<uint64_t>(what);
    case GgufType::kI64:
      return in.Read<int64_t>(what);
    case GgufType::kF64:
      return in.Read<double>(what);
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  in.Refuse(std::string(what) + " has no scalar type");
}

uint32_t ReadPrologue(ByteReader& in) {
  if (in.Read<uint32_t>("magic number") != kMagic) in.Refuse("is not a GGUF file (it does not start with \"GGUF\")");
  const auto version = in.Read<uint32_t>("version");
  if (version != 0 && (version & 0xFFFF) == 0) {
    in.Refuse("is a big-endian GGUF file (version " + std::to_string(version >> 24) + "), this host is little-endian");
  }
  if (version != 2 && version != 3) {
    in.Refuse("is GGUF version " + std::to_string(version) + ", versions 2 and 3 are supported");
  }
  return version;
}

// Values times bytes per block of a tensor, or nullopt if that is no number that a file could have.
std::optional<uint64_t> TensorBytes(std::span<const int64_t> shape, const GgufTensorType& type) {
  uint64_t values = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(values, static_cast<uint64_t>(size), &values)) return std::nullopt;
  uint64_t bytes;
  if (__builtin_mul_overflow(values / static_cast<uint64_t>(type.block_values), static_cast<uint64_t>(type.block_bytes),
                             &bytes))
    return std::nullopt;
  return bytes;
}

// One row of the tensor table; `offset` is still relative to the data section.
GgufTensor ReadTensor(ByteReader& in) {
  GgufTensor tensor;
  tensor.name = ReadString(in, "tensor name", kMaxNameBytes);
  const std::string what = "tensor " + Quoted(tensor.name);
  const auto num_dims = in.Read<uint32_t>(what);
  if (num_dims < 1 || num_dims > 4)
    in.Refuse(what + " has " + std::to_string(num_dims) + " dimensions, must be 1 to 4");
  for (uint32_t d = 0; d < num_dims; ++d) {
    const auto size = in.Read<int64_t>(what);
    if (size < 1) in.Refuse(what + " has size " + std::to_string(size) + " in dimension " + std::to_string(d));
    tensor.shape.push_back(size);
  }
  const auto type_id = in.Read<uint32_t>(what);
  const GgufTensorType* type = FindGgufTensorType(type_id);
  if (type == nullptr) in.Refuse(what + " has unknown type id " + std::to_string(static_cast<int32_t>(type_id)));
  if (tensor.shape[0] % type->block_values != 0) {
    in.Refuse(what + " has rows of " + std::to_string(tensor.shape[0]) + " values, type " + std::string(type->name) +
              " needs a multiple of " + std::to_string(type->block_values));
  }
  const std::optional<uint64_t> bytes = TensorBytes(tensor.shape, *type);
  if (!bytes) in.Refuse(what + " has dimensions whose product overflows");
  tensor.bytes = *bytes;
  tensor.type_name = type->name;
  tensor.format = tensor::FormatFromName(type->name);
  tensor.offset = in.Read<uint64_t>(what);
  return tensor;
}

// Turns offsets into those of the file and checks that tensors are aligned, inside the file and apart.
void PlaceTensors(const ByteReader& in, uint64_t data_begin, uint64_t file_bytes, int64_t alignment,
                  std::vector<GgufTensor>& tensors) {
  const uint64_t data_bytes = data_begin < file_bytes ? file_bytes - data_begin : 0;
  std::vector<const GgufTensor*> by_offset;
  for (GgufTensor& tensor : tensors) {
    const std::string what = "tensor " + Quoted(tensor.name);
    if (tensor.offset % static_cast<uint64_t>(alignment) != 0) {
      in.Refuse(what + " has offset " + std::to_string(tensor.offset) + ", must be a multiple of " +
                std::to_string(alignment));
    }
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      in.Refuse(what + " has " + std::to_string(tensor.bytes) + " bytes at offset " + std::to_string(tensor.offset) +
                ", but the file has " + std::to_string(data_bytes) + " bytes of tensor data");
    }
    tensor.offset += data_begin;
    by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i - 1]->offset + by_offset[i - 1]->bytes > by_offset[i]->offset) {
      in.Refuse("tensors " + Quoted(by_offset[i - 1]->name) + " and " + Quoted(by_offset[i]->name) + " overlap");
    }
  }
}

// Parts of a split file that were joined end to end: the second header lies right behind the first part's data.
void RefuseJoinedFiles(const ByteReader& in, std::span<const std::byte> file, uint64_t data_begin, int64_t alignment,
                       const std::vector<GgufTensor>& tensors) {
  uint64_t end = data_begin;
  for (const GgufTensor& tensor : tensors) end = std::max(end, tensor.offset + tensor.bytes);
  const auto padded = (end + static_cast<uint64_t>(alignment) - 1) / static_cast<uint64_t>(alignment) *
                      static_cast<uint64_t>(alignment);
  for (const uint64_t at : {end, padded}) {
    if (at >= file.size() || file.size() - at < 4) continue;
    if (AsText(file.subspan(at, 4)) == "GGUF") {
      in.Refuse("has a second GGUF header at byte " + std::to_string(at) +
                ": parts of a split model are not joined with cat, keep them as separate files");
    }
  }
}

}  // namespace

GgufFile::GgufFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)) {
  ByteReader in(path_, bytes);
  version_ = ReadPrologue(in);
  const auto num_tensors = in.Read<uint64_t>("tensor count");
  const auto num_keys = in.Read<uint64_t>("metadata count");
  if (num_tensors > in.remaining() / kMinTensorBytes) {
    in.Refuse("tensor count " + std::to_string(num_tensors) + " does not fit into the file");
  }
  if (num_keys > in.remaining() / kMinMetadataBytes) {
    in.Refuse("metadata count " + std::to_string(num_keys) + " does not fit into the file");
  }

  for (uint64_t i = 0; i < num_keys; ++i) {
    const std::string key(ReadString(in, "metadata key", kMaxKeyBytes));
    const std::string what = "metadata key " + Quoted(key);
    const GgufType type = ReadType(in, what);
    GgufValue value = type == GgufType::kString  ? GgufValue(ReadString(in, what))
                      : type == GgufType::kArray ? GgufValue(ReadArray(in, bytes, what, 1))
                                                 : ReadScalar(in, type, what);
    metadata_.emplace_back(key, std::move(value));
  }
  for (size_t i = 0; i < metadata_.size(); ++i) {
    if (!key_index_.emplace(metadata_[i].first, i).second) {
      in.Refuse("metadata key " + Quoted(metadata_[i].first) + " occurs twice");
    }
  }
  for (uint64_t i = 0; i < num_tensors; ++i) tensors_.push_back(ReadTensor(in));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensor_index_.emplace(tensors_[i].name, i).second) {
      in.Refuse("tensor " + Quoted(tensors_[i].name) + " occurs twice");
    }
  }

  const int64_t alignment = Int("general.alignment", 1, kMaxAlignment).value_or(kDefaultAlignment);
  if ((alignment & (alignment - 1)) != 0) {
    Refuse("general.alignment", "is " + std::to_string(alignment) + ", must be a power of two");
  }
  const uint64_t data_begin = (in.position() + static_cast<uint64_t>(alignment) - 1) /
                              static_cast<uint64_t>(alignment) * static_cast<uint64_t>(alignment);
  PlaceTensors(in, data_begin, bytes.size(), alignment, tensors_);
  RefuseJoinedFiles(in, bytes, data_begin, alignment, tensors_);
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto it = key_index_.find(key);
  return it == key_index_.end() ? nullptr : &metadata_[it->second].second;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

void GgufFile::Refuse(std::string_view key, std::string_view what, std::string_view action) const {
  throw base::Error(base::ErrorKind::kModelFile, base::Printable(path_, 4096),
                    "metadata key " + Quoted(key) + " " + std::string(what), action);
}

}  // namespace peng::formats
