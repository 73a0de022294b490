// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "api/inspect.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"

namespace peng::cli {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

void PrintText(const api::Inspection& file) {
  std::printf("%s: %s, %zu tensors, %.1f MB\n", file.path.c_str(), file.kind.c_str(), file.tensors.size(),
              static_cast<double>(file.tensor_bytes) / 1e6);
  for (const auto& entry : file.metadata) std::printf("%s = %s\n", entry.key.c_str(), entry.text.c_str());
  for (const auto& t : file.tensors) {
    std::printf("%-48s %-8s %-20s %12lld bytes%s\n", t.name.c_str(), t.format.c_str(), ShapeText(t.shape).c_str(),
                static_cast<long long>(t.bytes), t.supported ? "" : "  (not supported)");
  }
}

void PrintJson(const api::Inspection& file) {
  base::Json out, metadata(base::Json::Object{}), lengths(base::Json::Object{}), tensors(base::Json::Array{});
  for (const auto& entry : file.metadata) {
    metadata.Set(entry.key, entry.value);
    if (entry.length) lengths.Set(entry.key, *entry.length);
  }
  for (const auto& t : file.tensors) {
    base::Json tensor, shape(base::Json::Array{});
    for (const int64_t n : t.shape) shape.Push(n);
    tensor.Set("name", t.name).Set("format", t.format).Set("shape", std::move(shape));
    tensor.Set("bytes", t.bytes).Set("supported", t.supported);
    tensors.Push(std::move(tensor));
  }
  out.Set("path", file.path).Set("kind", file.kind).Set("tensor_bytes", file.tensor_bytes);
  out.Set("metadata", std::move(metadata)).Set("array_lengths", std::move(lengths)).Set("tensors", std::move(tensors));
  std::printf("%s\n", out.Dump().c_str());
}

}  // namespace

int Inspect(int argc, char** argv) {
  std::string path;
  bool json = false;
  CommandLine line{"inspect", "Lists what a model file or folder holds."};
  line.flags.push_back(
      {"model", "a .gguf or .safetensors file, a folder, or the name of a model in a cache", &path, true});
  line.flags.push_back({"--json", "print JSON", &json});
  if (!ParseArguments(line, argc, argv)) return 0;
  const api::Inspection file = api::InspectModel(path);
  json ? PrintJson(file) : PrintText(file);
  return 0;
}

}  // namespace peng::cli
