// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace peng::base {

// Keys of a config file with their values as text, in the order of the file. A list has one text per item.
using ConfigEntries = std::vector<std::pair<std::string, std::vector<std::string>>>;

// Throws for a key that means nothing: before its value is looked at, which may be of any kind then.
using KeyCheck = std::function<void(const std::string& key, const std::string& where)>;

// The entries of a YAML mapping of scalars and lists of scalars. Throws Error(kUsage) that names `where` and the line.
ConfigEntries ParseYamlConfig(const std::string& text, const std::string& where, const KeyCheck& check_key);

}  // namespace peng::base
