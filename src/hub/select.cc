// SPDX-License-Identifier: Apache-2.0
#include "hub/select.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/ascii.h"
#include "base/error.h"

namespace peng::hub {
namespace {

using base::Error;
using base::ErrorKind;

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool AllDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "model-00001-of-00003" -> 3 parts, and `stem` loses that end. 0 parts if it is no part of several.
int TakePartSuffix(std::string* stem) {
  constexpr size_t kDigits = 5, kSuffix = 2 * kDigits + 5;  // -NNNNN-of-NNNNN
  if (stem->size() <= kSuffix) return 0;
  const std::string_view end = std::string_view(*stem).substr(stem->size() - kSuffix);
  if (end[0] != '-' || end.substr(1 + kDigits, 4) != "-of-" || !AllDigits(end.substr(1, kDigits)) ||
      !AllDigits(end.substr(kDigits + 5))) {
    return 0;
  }
  const int parts = std::stoi(std::string(end.substr(kDigits + 5)));
  stem->resize(stem->size() - kSuffix);
  return parts;
}

// A name that goes with every model, or tells how it may be used.
bool IsCompanion(std::string_view name) {
  static const std::set<std::string_view> kNames = {
      "config.json",       "generation_config.json",  "tokenizer.json",     "tokenizer_config.json",
      "tokenizer.model",   "special_tokens_map.json", "added_tokens.json",  "vocab.json",
      "merges.txt",        "chat_template.jinja",     "chat_template.json", "quantize_config.json",
      "quant_config.json", "hf_quant_config.json",    "vocab.txt"};
  return kNames.count(name) != 0;
}

bool IsLicence(std::string_view path) {
  const std::string name = base::AsciiLower(path);
  return name.starts_with("license") || name.starts_with("licence") || name.starts_with("notice") ||
         name.starts_with("use_policy");
}

bool IsTopLevel(std::string_view path) { return path.find('/') == std::string_view::npos; }

// Repositories with Mistral's own format keep the weights a second time under this name.
bool IsSecondCopy(std::string_view path) { return path.starts_with("consolidated"); }

std::vector<RemoteFile> SafetensorsFiles(const std::vector<RemoteFile>& files) {
  const auto is_weight = [](const RemoteFile& f) { return IsTopLevel(f.path) && f.path.ends_with(".safetensors"); };
  const bool has_model = std::any_of(files.begin(), files.end(),
                                     [&](const RemoteFile& f) { return is_weight(f) && !IsSecondCopy(f.path); });
  std::vector<RemoteFile> chosen;
  for (const RemoteFile& file : files) {
    if (!IsTopLevel(file.path) || (has_model && IsSecondCopy(file.path))) continue;
    if (is_weight(file) || file.path.ends_with(".safetensors.index.json") || IsCompanion(file.path) ||
        IsLicence(file.path)) {
      chosen.push_back(file);
    }
  }
  return chosen;
}

const GgufModel& ChooseGguf(const std::string& name, const std::vector<GgufModel>& models,
                            const std::vector<RemoteFile>& files, const std::string& tag) {
  std::vector<const GgufModel*> matching;
  for (const GgufModel& model : models) {
    if (tag.empty() || TagMatches(model, tag)) matching.push_back(&model);
  }
  const std::string choices = DescribeModels(models, files);
  if (matching.empty()) {
    throw Error(ErrorKind::kUsage, name, "no GGUF model of the repository is called " + base::Printable(tag, 80),
                models.empty() ? "leave the tag out: the repository has no GGUF files" : "it has " + choices);
  }
  if (matching.size() > 1) {
    throw Error(ErrorKind::kUsage, name, "names " + std::to_string(matching.size()) + " GGUF models",
                "add one of these to the name after a ':': " + choices);
  }
  if (!matching[0]->complete) {
    throw Error(ErrorKind::kUsage, name,
                "parts of the GGUF model " + base::Printable(matching[0]->name) + " are missing in the repository",
                "choose another: " + choices);
  }
  return *matching[0];
}

std::vector<RemoteFile> Filter(const std::vector<RemoteFile>& files, const Selection& selection) {
  std::vector<RemoteFile> chosen;
  for (const RemoteFile& file : files) {
    if (!selection.include.empty() && !MatchesAny(file.path, selection.include)) continue;
    if (!MatchesAny(file.path, selection.exclude)) chosen.push_back(file);
  }
  return chosen;
}

std::vector<RemoteFile> NeededFiles(const std::string& name, const std::vector<RemoteFile>& files,
                                    const std::string& tag) {
  std::vector<std::string> paths;
  for (const RemoteFile& file : files) paths.push_back(file.path);
  const bool safetensors = std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
    return IsTopLevel(path) && path.ends_with(".safetensors");
  });
  const std::vector<GgufModel> models = GgufModels(paths);
  if (tag.empty() && safetensors) return SafetensorsFiles(files);
  if (tag.empty() && models.empty()) {
    const bool pytorch = std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
      return path.ends_with(".bin") || path.ends_with(".pt") || path.ends_with(".pth");
    });
    throw Error(
        ErrorKind::kUsage, name,
        std::string("the repository has neither safetensors nor GGUF files") + (pytorch ? ", only PyTorch's" : ""),
        "name a repository that has, or files with --include");
  }
  const GgufModel& model = ChooseGguf(name, models, files, tag);
  std::vector<RemoteFile> chosen;
  for (const RemoteFile& file : files) {
    const bool part = std::find(model.paths.begin(), model.paths.end(), file.path) != model.paths.end();
    if (part || (IsTopLevel(file.path) && IsLicence(file.path))) chosen.push_back(file);
  }
  return chosen;
}

}  // namespace

std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

std::vector<GgufModel> GgufModels(const std::vector<std::string>& paths) {
  std::map<std::string, GgufModel> models;
  std::map<std::string, size_t> parts;
  for (const std::string& path : paths) {
    if (!path.ends_with(".gguf")) continue;
    const std::string lower = base::AsciiLower(BaseName(path));
    if (lower.starts_with("mmproj") || lower.find("imatrix") != std::string::npos) continue;
    std::string stem = path.substr(0, path.size() - 5);
    const int of = TakePartSuffix(&stem);
    // A set of parts and a single file may share a name; they are two models.
    const std::string key = stem + (of > 0 ? "/" + std::to_string(of) : "");
    models[key].name = stem;
    models[key].paths.push_back(path);
    parts[key] = static_cast<size_t>(std::max(of, 1));
  }
  std::vector<GgufModel> result;
  for (auto& [key, model] : models) {
    std::sort(model.paths.begin(), model.paths.end());
    model.complete = model.paths.size() == parts[key];
    result.push_back(std::move(model));
  }
  return result;
}

bool TagMatches(const GgufModel& model, std::string_view tag) {
  const std::string name = base::AsciiLower(model.name), wanted = base::AsciiLower(tag);
  const auto boundary = [](char c) { return c == '-' || c == '.' || c == '_' || c == '/'; };
  for (size_t at = name.find(wanted); at != std::string::npos; at = name.find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    const bool starts = at == 0 || boundary(name[at - 1]);
    if (starts && (end == name.size() || (name[end] == '/' && (at == 0 || name[at - 1] == '/')))) return true;
  }
  return false;
}

bool MatchesAny(std::string_view path, const std::vector<std::string>& patterns) {
  const std::string text(path);
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    const std::string whole = pattern.ends_with('/') ? pattern + "*" : pattern;
    return fnmatch(whole.c_str(), text.c_str(), 0) == 0;
  });
}

std::string DescribeModels(const std::vector<GgufModel>& models, const std::vector<RemoteFile>& files) {
  constexpr size_t kMost = 40;
  std::map<std::string_view, int64_t> sizes;
  for (const RemoteFile& file : files) sizes[file.path] = file.size;
  std::string text;
  for (size_t i = 0; i < std::min(models.size(), kMost); ++i) {
    int64_t bytes = 0;
    for (const std::string& path : models[i].paths) bytes += std::max<int64_t>(0, sizes[path]);
    // The shortest end of the name that names this model alone.
    std::string tag(BaseName(models[i].name));
    for (size_t at = tag.size(); at-- > 1;) {
      if (tag[at - 1] != '-' && tag[at - 1] != '.') continue;
      const std::string shorter = tag.substr(at);
      if (std::count_if(models.begin(), models.end(), [&](const auto& m) { return TagMatches(m, shorter); }) == 1) {
        tag = shorter;
        break;
      }
    }
    text += (text.empty() ? "" : ", ") + base::Printable(tag, 80) + (bytes > 0 ? " (" + BytesText(bytes) + ")" : "");
  }
  return text + (models.size() > kMost ? ", …" : "");
}

std::vector<RemoteFile> SelectFiles(const std::string& name, const std::vector<RemoteFile>& files,
                                    const Selection& selection) {
  if (!selection.include.empty() && !selection.tag.empty()) {
    throw Error(ErrorKind::kUsage, "--include", "is given beside the tag " + base::Printable(selection.tag, 80),
                "leave out one of them");
  }
  std::vector<RemoteFile> chosen =
      selection.include.empty() ? NeededFiles(name, Filter(files, selection), selection.tag) : Filter(files, selection);
  if (chosen.empty()) {
    throw Error(ErrorKind::kUsage, name, "no file of the repository matches --include and --exclude",
                "the repository has " + std::to_string(files.size()) + " files; widen the patterns");
  }
  return chosen;
}

}  // namespace peng::hub
