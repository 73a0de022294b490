// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/check.h"
#include "base/utf8.h"

namespace peng::base {
namespace {

// Values are destroyed, compared and dumped by recursion, so no caller may ask for more.
constexpr size_t kMaxDepth = 4096;

// A pointer that tells where the parser stands, since the SAX callbacks do not.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const TrackingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// The library's own text up to the part that quotes the input.
std::string WithoutQuotedInput(std::string text) {
  const size_t code_end = text.find("] ");
  if (code_end != std::string::npos) text.erase(0, code_end + 2);
  text.resize(std::min(text.find("; last read"), text.size()));
  text.resize(std::min(text.find(" parsing '"), text.size()));
  const size_t reason = text.rfind(" - ");
  if (reason != std::string::npos) text.erase(0, reason + 3);
  return text;
}

class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, const JsonLimits& limits)
      : begin_(text.data()), reached_(text.data()), limits_(limits) {}

  const char** reached() { return &reached_; }
  Json TakeRoot() { return std::move(root_); }
  JsonError TakeError() { return std::move(error_); }

  bool null() { return Add(Json()); }
  bool boolean(bool v) { return Add(Json(v)); }
  bool number_integer(int64_t v) { return Add(Json(v)); }
  bool number_unsigned(uint64_t v) { return Add(Json(v)); }
  bool number_float(double v, const std::string&) { return Add(Json(v)); }
  bool string(std::string& v) { return Add(Json(std::move(v))); }
  bool binary(std::vector<uint8_t>&) { return Fail("binary value"); }

  bool start_array(size_t) { return Open(Json(Json::Array())); }
  bool start_object(size_t) { return Open(Json(Json::Object())); }
  bool end_array() { return Close(); }
  bool end_object() { return ResolveDuplicates() && Close(); }

  bool key(std::string& v) {
    Frame& frame = stack_.back();
    frame.key = std::move(v);
    if (limits_.refuse_duplicate_keys) frame.key_ends.push_back(offset());
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
    error_ = {WithoutQuotedInput(e.what()), position == 0 ? 0 : position - 1};
    return false;
  }

 private:
  struct Frame {
    Json value;
    std::string key;               // of the member being parsed
    std::vector<size_t> key_ends;  // offsets, kept only to report duplicates
  };

  size_t offset() const { return static_cast<size_t>(reached_ - begin_); }

  bool Fail(std::string message) { return FailAt(std::move(message), offset() == 0 ? 0 : offset() - 1); }
  bool FailAt(std::string message, size_t offset) {
    error_ = {std::move(message), offset};
    return false;
  }

  bool Count() {
    if (++elements_ <= limits_.max_elements) return true;
    return Fail("more than " + std::to_string(limits_.max_elements) + " values");
  }

  bool Add(Json v) {
    if (!Count()) return false;
    Attach(std::move(v));
    return true;
  }

  void Attach(Json v) {
    if (stack_.empty()) {
      root_ = std::move(v);
    } else if (Frame& frame = stack_.back(); frame.value.is_array()) {
      frame.value.as_array().push_back(std::move(v));
    } else {
      frame.value.as_object().emplace_back(std::move(frame.key), std::move(v));
    }
  }

  bool Open(Json container) {
    if (!Count()) return false;
    if (stack_.size() >= limits_.max_depth) {
      return Fail("nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    }
    stack_.push_back({std::move(container), {}, {}});
    return true;
  }

  bool Close() {
    Json done = std::move(stack_.back().value);
    stack_.pop_back();
    Attach(std::move(done));
    return true;
  }

  // Once per object and by sorting: an object may be a vocabulary of 100,000 keys.
  bool ResolveDuplicates() {
    Frame& frame = stack_.back();
    Json::Object& members = frame.value.as_object();
    std::vector<size_t> order(members.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const int c = members[a].first.compare(members[b].first);
      return c != 0 ? c < 0 : a < b;
    });
    std::vector<size_t> superseded;
    size_t first_repeat = members.size();
    for (size_t begin = 0; begin < order.size();) {
      size_t end = begin + 1;
      while (end < order.size() && members[order[end]].first == members[order[begin]].first) ++end;
      if (end - begin > 1) {
        first_repeat = std::min(first_repeat, order[begin + 1]);
        members[order[begin]].second = std::move(members[order[end - 1]].second);
        superseded.insert(superseded.end(), order.begin() + begin + 1, order.begin() + end);
      }
      begin = end;
    }
    if (superseded.empty()) return true;
    if (limits_.refuse_duplicate_keys) return FailAt("duplicate key", frame.key_ends[first_repeat] - 1);
    EraseMembers(superseded, &members);
    return true;
  }

  static void EraseMembers(std::vector<size_t>& indices, Json::Object* members) {
    std::sort(indices.begin(), indices.end());
    size_t kept = 0, next = 0;
    for (size_t i = 0; i < members->size(); ++i) {
      if (next < indices.size() && indices[next] == i) {
        ++next;
      } else {
        if (kept != i) (*members)[kept] = std::move((*members)[i]);
        ++kept;
      }
    }
    members->resize(kept);
  }

  const char* begin_;
  const char* reached_;
  const JsonLimits& limits_;
  std::vector<Frame> stack_;
  size_t elements_ = 0;
  Json root_;
  JsonError error_;
};

void DumpString(std::string_view text, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeUtf8(text, &pos);
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\b':
        *out += "\\b";
        break;
      case '\f':
        *out += "\\f";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      case kInvalidCodePoint:
        AppendUtf8(0xFFFD, out);
        break;
      default:
        if (c < 0x20) {
          *out += "\\u00";
          out->push_back(kHex[c >> 4]);
          out->push_back(kHex[c & 15]);
        } else {
          AppendUtf8(c, out);
        }
    }
  }
  out->push_back('"');
}

// Shortest digits that read back as the same double, laid out as most clients' languages do: plain between 1e-4 and
// 1e16, with ".0" so that it stays a float.
void DumpDouble(double v, std::string* out) {
  if (!std::isfinite(v)) {
    *out += "null";
    return;
  }
  const double magnitude = std::fabs(v);
  const bool plain = v == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  char buffer[64];
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), v, format);
  PENG_CHECK(error == std::errc());
  const std::string_view digits(buffer, end - buffer);
  *out += digits;
  if (plain && digits.find('.') == std::string_view::npos) *out += ".0";
}

void DumpTo(const Json& v, std::string* out) {
  if (v.is_null()) {
    *out += "null";
  } else if (v.is_bool()) {
    *out += v.as_bool() ? "true" : "false";
  } else if (v.is_int()) {
    *out += std::to_string(v.as_int());
  } else if (v.is_number()) {
    DumpDouble(v.as_double(), out);
  } else if (v.is_string()) {
    DumpString(v.as_string(), out);
  } else if (v.is_array()) {
    char separator = '[';
    for (const Json& item : v.as_array()) {
      out->push_back(std::exchange(separator, ','));
      DumpTo(item, out);
    }
    *out += separator == '[' ? "[]" : "]";
  } else {
    char separator = '{';
    for (const auto& [key, item] : v.as_object()) {
      out->push_back(std::exchange(separator, ','));
      DumpString(key, out);
      out->push_back(':');
      DumpTo(item, out);
    }
    *out += separator == '{' ? "{}" : "}";
  }
}

}  // namespace

Json::Json(uint64_t v) {
  if (v <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    value_ = static_cast<int64_t>(v);
  } else {
    value_ = static_cast<double>(v);
  }
}

const char* Json::type_name() const {
  static constexpr const char* kNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  return kNames[value_.index()];
}

bool Json::as_bool() const {
  PENG_CHECK(is_bool());
  return std::get<bool>(value_);
}

int64_t Json::as_int() const {
  PENG_CHECK(is_int());
  return std::get<int64_t>(value_);
}

double Json::as_double() const {
  PENG_CHECK(is_number());
  return is_int() ? static_cast<double>(std::get<int64_t>(value_)) : std::get<double>(value_);
}

const std::string& Json::as_string() const {
  PENG_CHECK(is_string());
  return std::get<std::string>(value_);
}

const Json::Array& Json::as_array() const {
  PENG_CHECK(is_array());
  return std::get<Array>(value_);
}

Json::Array& Json::as_array() {
  PENG_CHECK(is_array());
  return std::get<Array>(value_);
}

const Json::Object& Json::as_object() const {
  PENG_CHECK(is_object());
  return std::get<Object>(value_);
}

Json::Object& Json::as_object() {
  PENG_CHECK(is_object());
  return std::get<Object>(value_);
}

const Json* Json::Find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& [name, value] : as_object()) {
    if (name == key) return &value;
  }
  return nullptr;
}

Json& Json::Set(std::string_view key, Json v) {
  if (is_null()) value_ = Object();
  for (auto& [name, value] : as_object()) {
    if (name == key) {
      value = std::move(v);
      return *this;
    }
  }
  as_object().emplace_back(std::string(key), std::move(v));
  return *this;
}

void Json::Push(Json v) {
  if (is_null()) value_ = Array();
  as_array().push_back(std::move(v));
}

std::string Json::Dump() const {
  std::string out;
  DumpTo(*this, &out);
  return out;
}

std::variant<Json, JsonError> ParseJson(std::string_view text, const JsonLimits& limits) {
  PENG_CHECK(limits.max_depth <= kMaxDepth);
  // The library takes a NUL byte for the end of the text and would accept whatever follows it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) return JsonError{"NUL byte", nul};
  TreeBuilder builder(text, limits);
  TrackingIterator first(text.data(), builder.reached());
  TrackingIterator last(text.data() + text.size(), builder.reached());
  if (!nlohmann::json::sax_parse(first, last, &builder)) return builder.TakeError();
  return builder.TakeRoot();
}

}  // namespace peng::base
