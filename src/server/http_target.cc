// SPDX-License-Identifier: Apache-2.0
#include "server/http_target.h"

#include <algorithm>

namespace peng::server {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    out.push_back(c);
  }
  return out;
}

// "http://host:1/path" -> "/path", as proxies send it.
std::string_view WithoutAuthority(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    if (end == 0) return {};
    target.remove_prefix(end);
    return target.empty() ? "/" : target;
  }
  return target;
}

}  // namespace

std::optional<HttpTarget> ParseTarget(std::string_view target, std::string_view root_path) {
  if (target == "*") return HttpTarget{"*", ""};
  const std::string_view behind = WithoutAuthority(target);
  const bool whole = behind.size() != target.size();
  target = behind;
  HttpTarget out;
  if (const size_t mark = target.find('?'); mark != std::string_view::npos) {
    out.query = target.substr(mark + 1);
    target = target.substr(0, mark);
    if (target.empty() && whole) target = "/";
  }
  auto path = Decode(target);
  if (!path || !path->starts_with('/')) return std::nullopt;
  out.path = std::move(*path);
  if (!root_path.empty() && out.path.starts_with(root_path)) {
    if (out.path.size() == root_path.size()) {
      out.path = "/";
    } else if (out.path[root_path.size()] == '/') {
      out.path.erase(0, root_path.size());
    }
  }
  return out;
}

std::string NormalRootPath(std::string_view root_path) {
  while (root_path.ends_with('/')) root_path.remove_suffix(1);
  while (root_path.starts_with('/')) root_path.remove_prefix(1);
  return root_path.empty() ? "" : "/" + std::string(root_path);
}

}  // namespace peng::server
