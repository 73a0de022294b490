// SPDX-License-Identifier: Apache-2.0
#include "hub/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/ascii.h"
#include "base/error.h"
#include "base/file.h"
#include "hub/http.h"
#include "hub/remote_file.h"

namespace peng::hub {
namespace {

using base::Error;
using base::ErrorKind;
using base::Settings;

constexpr const char* kVariables[] = {"HOME",
                                      "PENG_HOME",
                                      "PENG_HUB",
                                      "PENG_OFFLINE",
                                      "XDG_CACHE_HOME",
                                      "HF_HOME",
                                      "HF_HUB_CACHE",
                                      "HF_ENDPOINT",
                                      "HF_TOKEN",
                                      "HF_TOKEN_PATH",
                                      "HF_HUB_OFFLINE",
                                      "HUGGINGFACE_HUB_CACHE",
                                      "HUGGING_FACE_HUB_TOKEN",
                                      "TRANSFORMERS_OFFLINE",
                                      "MODELSCOPE_CACHE",
                                      "SSL_CERT_FILE",
                                      "MODELSCOPE_ENDPOINT",
                                      "MODELSCOPE_DOMAIN",
                                      "MODELSCOPE_API_TOKEN",
                                      "REQUESTS_CA_BUNDLE",
                                      "CURL_CA_BUNDLE"};

// An empty variable is how compose files and systemd units write "not set".
std::string Get(const Settings& environment, std::string_view name) {
  for (const auto& [key, value] : environment) {
    if (key == name) return value;
  }
  return "";
}

std::string FirstOf(const Settings& environment, std::initializer_list<const char*> names, const char** found) {
  for (const char* name : names) {
    if (std::string value = Get(environment, name); !value.empty()) {
      *found = name;
      return value;
    }
  }
  return "";
}

bool IsTrue(const std::string& value) {
  const std::string lower = base::AsciiLower(value);
  return lower == "1" || lower == "on" || lower == "yes" || lower == "true";
}

std::string Expand(const std::string& path, const Settings& environment) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return Get(environment, "HOME") + path.substr(1);
}

std::string HuggingFaceHome(const Settings& environment) {
  if (const std::string home = Get(environment, "HF_HOME"); !home.empty()) return Expand(home, environment);
  if (const std::string cache = Get(environment, "XDG_CACHE_HOME"); !cache.empty()) {
    return Expand(cache, environment) + "/huggingface";
  }
  const std::string home = Get(environment, "HOME");
  return home.empty() ? "" : home + "/.cache/huggingface";
}

// A token goes into a header line.
std::string CleanToken(std::string token, const std::string& where) {
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  token.erase(0, std::min(token.find_first_not_of(" \t\r\n"), token.size()));
  const auto plain = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  if (token.size() > 4096 || !std::all_of(token.begin(), token.end(), plain)) {
    throw Error(ErrorKind::kUsage, where, "holds no token: it has spaces, control characters or too many bytes",
                "set it to the token alone");
  }
  return token;
}

std::string HuggingFaceToken(const Settings& environment) {
  const char* name = nullptr;
  const std::string token = FirstOf(environment, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}, &name);
  if (!token.empty()) return CleanToken(token, name);
  std::string path = Expand(Get(environment, "HF_TOKEN_PATH"), environment);
  if (path.empty()) {
    const std::string home = HuggingFaceHome(environment);
    if (home.empty()) return "";
    path = home + "/token";
  }
  if (::access(path.c_str(), F_OK) != 0) return "";
  return CleanToken(base::ReadFile(path, size_t{64} << 10, ErrorKind::kUsage), base::Printable(path, 4096));
}

std::string CleanEndpoint(std::string endpoint, const char* name) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (OriginOf(endpoint).empty() || endpoint.find_first_of("?# \t") != std::string::npos) {
    throw Error(ErrorKind::kUsage, name, "\"" + base::Printable(endpoint, 80) + "\" is no http or https address",
                "write it as https://HOST");
  }
  return endpoint;
}

std::string Endpoint(HubKind kind, const Settings& environment) {
  const char* name = "";
  if (kind == HubKind::kHuggingFace) {
    const std::string endpoint = FirstOf(environment, {"HF_ENDPOINT"}, &name);
    return endpoint.empty() ? "https://huggingface.co" : CleanEndpoint(endpoint, name);
  }
  std::string endpoint = FirstOf(environment, {"MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN"}, &name);
  if (endpoint.empty()) return "https://modelscope.cn";
  if (endpoint.find("://") == std::string::npos) endpoint = "https://" + endpoint;
  return CleanEndpoint(endpoint, name);
}

HubKind KindOf(const std::string& hub, const char* where) {
  if (hub.empty() || hub == "huggingface") return HubKind::kHuggingFace;
  if (hub == "modelscope") return HubKind::kModelScope;
  throw Error(ErrorKind::kUsage, where, "\"" + base::Printable(hub, 40) + "\" is no hub",
              "use huggingface or modelscope");
}

std::string CaPath(const Settings& environment) {
  const char* name = "";
  const std::string path = FirstOf(environment, {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}, &name);
  if (!path.empty() && ::access(path.c_str(), R_OK) != 0) {
    throw Error(ErrorKind::kUsage, name, "names " + base::Printable(path, 400) + ", which cannot be read",
                "name a file of certificates in PEM form");
  }
  return path;
}

}  // namespace

base::Settings HubEnvironment() {
  Settings environment;
  for (const char* name : kVariables) {
    if (const char* value = std::getenv(name)) environment.emplace_back(name, value);
  }
  return environment;
}

HubSettings ReadHubSettings(const std::string& hub, const Settings& environment) {
  HubSettings settings;
  settings.kind = hub.empty() ? KindOf(Get(environment, "PENG_HUB"), "PENG_HUB") : KindOf(hub, "--hub");
  settings.endpoint = Endpoint(settings.kind, environment);
  settings.token = settings.kind == HubKind::kHuggingFace
                       ? HuggingFaceToken(environment)
                       : CleanToken(Get(environment, "MODELSCOPE_API_TOKEN"), "MODELSCOPE_API_TOKEN");
  for (const char* name : {"PENG_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    if (settings.offline_because.empty() && IsTrue(Get(environment, name))) settings.offline_because = name;
  }
  settings.ca_path = CaPath(environment);
  return settings;
}

CachePaths ReadCachePaths(const Settings& environment) {
  CachePaths paths;
  paths.peng_home = base::PengHome(environment);
  const char* name = "";
  paths.hugging_face_hub = Expand(FirstOf(environment, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}, &name), environment);
  if (paths.hugging_face_hub.empty()) {
    const std::string home = HuggingFaceHome(environment);
    if (!home.empty()) paths.hugging_face_hub = home + "/hub";
  }
  paths.model_scope = Expand(Get(environment, "MODELSCOPE_CACHE"), environment);
  if (paths.model_scope.empty()) {
    const std::string home = Get(environment, "HOME");
    if (!home.empty()) paths.model_scope = home + "/.cache/modelscope";
  }
  return paths;
}

}  // namespace peng::hub
