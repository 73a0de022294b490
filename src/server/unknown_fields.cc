// SPDX-License-Identifier: Apache-2.0
#include "server/unknown_fields.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace peng::server {
namespace {

using base::Json;
using Names = std::initializer_list<std::string_view>;

class Walk {
 public:
  Walk(std::vector<std::string>* names, size_t limit) : names_(names), limit_(limit) {}

  // Members of `object` that are not `known`.
  void Check(const Json* object, const std::string& at, Names known) {
    if (object == nullptr || !object->is_object()) return;
    for (const auto& [key, value] : object->as_object()) {
      if (names_->size() >= limit_) return;
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        names_->push_back(at + "." + base::Printable(key, 64));
      }
    }
  }

  void Function(const Json* owner, const std::string& at, Names known) {
    if (owner != nullptr) Check(owner->Find("function"), at + ".function", known);
  }

  // Calls `visit(element, "at[i]")` for the elements of an array.
  template <typename Visit>
  void Each(const Json* array, const std::string& at, Visit visit) {
    if (array == nullptr || !array->is_array()) return;
    size_t index = 0;
    for (const Json& element : array->as_array()) {
      if (names_->size() >= limit_) return;
      visit(element, at + "[" + std::to_string(index++) + "]");
    }
  }

  void Message(const Json& message, const std::string& at) {
    Check(&message, at,
          {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "annotations", "function_call",
           "reasoning", "reasoning_content", "tools", "prefix", "cache_control"});
    Each(message.Find("content"), at + ".content", [this](const Json& part, const std::string& part_at) {
      Check(&part, part_at,
            {"type", "text", "refusal", "image_url", "input_audio", "video_url", "audio_url", "file", "uuid",
             "cache_control"});
    });
    Each(message.Find("tool_calls"), at + ".tool_calls", [this](const Json& call, const std::string& call_at) {
      Check(&call, call_at, {"id", "type", "function", "index"});
      Function(&call, call_at, {"name", "arguments"});
    });
  }

  void ResponseFormat(const Json* format) {
    Check(format, "response_format",
          {"type", "json_schema", "structures", "triggers", "format", "schema", "grammar", "regex"});
    if (format == nullptr) return;
    Check(format->Find("json_schema"), "response_format.json_schema", {"name", "description", "schema", "strict"});
  }

 private:
  std::vector<std::string>* names_;
  size_t limit_;
};

}  // namespace

void AddNestedUnknownFields(const Json& body, std::vector<std::string>* names, size_t limit) {
  Walk walk(names, limit);
  walk.Each(body.Find("messages"), "messages", [&](const Json& m, const std::string& at) { walk.Message(m, at); });
  walk.Check(body.Find("stream_options"), "stream_options",
             {"include_usage", "continuous_usage_stats", "include_obfuscation"});
  walk.ResponseFormat(body.Find("response_format"));
  walk.Each(body.Find("tools"), "tools", [&](const Json& tool, const std::string& at) {
    walk.Check(&tool, at, {"type", "function", "defer_loading", "cache_control"});
    walk.Function(&tool, at, {"name", "description", "parameters", "strict", "defer_loading"});
  });
  walk.Check(body.Find("tool_choice"), "tool_choice", {"type", "function"});
  walk.Function(body.Find("tool_choice"), "tool_choice", {"name"});
}

Json FieldWarnings(const std::vector<std::string>& names, const std::vector<std::string>& idle) {
  constexpr size_t kMost = 32;
  const auto warning = [](Json param, std::string message) {
    return Json(Json::Object{{"param", std::move(param)}, {"message", std::move(message)}});
  };
  Json::Array warnings;
  for (const std::string& name : idle) {
    warnings.push_back(warning(name, "Field '" + name + "' has no effect on this server."));
  }
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    warnings.push_back(warning(names[i], "Unknown field '" + names[i] + "' is ignored."));
  }
  if (names.size() > kMost) {
    warnings.push_back(warning({}, std::to_string(names.size() - kMost) + " more unknown fields are ignored."));
  }
  return warnings;
}

}  // namespace peng::server
