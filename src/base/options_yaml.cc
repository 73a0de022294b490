// SPDX-License-Identifier: Apache-2.0
#include "base/options_yaml.h"

#include <yaml-cpp/yaml.h>

#include "base/error.h"

namespace peng::base {
namespace {

[[noreturn]] void Refuse(const std::string& where, const YAML::Mark& mark, const std::string& what) {
  const std::string line = mark.is_null() ? "" : ": line " + std::to_string(mark.line + 1);
  throw Error(ErrorKind::kUsage, where + line, what);
}

std::vector<std::string> Values(const YAML::Node& node, const YAML::Node& name, const std::string& where) {
  const std::string& key = name.Scalar();
  if (node.IsScalar()) return {node.Scalar()};
  if (!node.IsSequence()) {
    Refuse(where, name.Mark(), "\"" + Printable(key) + "\" needs a value or a list of values");
  }
  std::vector<std::string> values;
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) Refuse(where, item.Mark(), "items of \"" + Printable(key) + "\" must be plain values");
    values.push_back(item.Scalar());
  }
  return values;
}

}  // namespace

ConfigEntries ParseYamlConfig(const std::string& text, const std::string& where, const KeyCheck& check_key) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      Refuse(where, documents[1].Mark(), "holds a second document, which nothing would read; keep one");
    }
    const YAML::Node root = documents.empty() ? YAML::Node() : documents[0];
    ConfigEntries entries;
    if (root.IsNull()) return entries;
    if (!root.IsMap()) Refuse(where, root.Mark(), "must be a mapping from option names to values");
    for (const auto& item : root) {
      if (!item.first.IsScalar()) Refuse(where, item.first.Mark(), "option names must be plain text");
      check_key(item.first.Scalar(), where);
      entries.emplace_back(item.first.Scalar(), Values(item.second, item.first, where));
    }
    return entries;
  } catch (const YAML::Exception& e) {
    Refuse(where, e.mark, "not valid YAML: " + Printable(e.msg));
  }
}

}  // namespace peng::base
