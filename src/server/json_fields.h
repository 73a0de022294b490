// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/api_error.h"

namespace peng::server {

// Reads the members of a request body by type. Null counts as absent. The first fault is kept and names its field;
// reads after it give nothing.
class JsonFields {
 public:
  explicit JsonFields(const base::Json& object, std::string prefix = {});

  // The member, marked as known; null pointer if it is absent or null.
  const base::Json* Get(std::string_view key);
  std::optional<bool> Bool(std::string_view key);
  std::optional<int64_t> Int(std::string_view key);  // also a float without a fraction
  std::optional<double> Number(std::string_view key);
  std::optional<std::string> String(std::string_view key);
  std::optional<std::vector<std::string>> Strings(std::string_view key);
  std::optional<std::vector<int32_t>> TokenIds(std::string_view key);
  const base::Json* Object(std::string_view key);
  const base::Json* Array(std::string_view key);

  void Fail(ApiError error);
  void FailType(std::string_view key, std::string_view wanted, const base::Json& found);
  bool failed() const { return error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }

  // Members that nothing asked for.
  std::vector<std::string> Unknown() const;

 private:
  const base::Json& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
  std::optional<ApiError> error_;
};

// The token ids of an array; nullopt if an element is none.
std::optional<std::vector<int32_t>> ToTokenIds(const base::Json& array);
// An integer, or a float without a fraction that is one.
std::optional<int64_t> ToInt(const base::Json& value);

}  // namespace peng::server
