// SPDX-License-Identifier: Apache-2.0
#include "hub/settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "hub/http.h"
#include "hub/remote.h"

namespace peng::hub {
namespace {

namespace fs = std::filesystem;

TEST(HubSettings, EndpointsAndTokens) {
  const HubSettings plain = ReadHubSettings("", {{"HOME", "/nowhere"}});
  EXPECT_EQ(plain.endpoint, "https://huggingface.co");
  EXPECT_EQ(plain.token, "");
  EXPECT_FALSE(plain.offline());
  const HubSettings mirror =
      ReadHubSettings("huggingface", {{"HF_ENDPOINT", "http://mirror:8080/hf/"}, {"HF_TOKEN", " hf_x\n"}});
  EXPECT_EQ(mirror.endpoint, "http://mirror:8080/hf");
  EXPECT_EQ(mirror.token, "hf_x");
  const HubSettings scope = ReadHubSettings(
      "", {{"PENG_HUB", "modelscope"}, {"MODELSCOPE_DOMAIN", "ms.example"}, {"MODELSCOPE_API_TOKEN", "t"}});
  EXPECT_EQ(scope.kind, HubKind::kModelScope);
  EXPECT_EQ(scope.endpoint, "https://ms.example");
  EXPECT_EQ(scope.token, "t");
}

TEST(HubSettings, TokenFileOffline) {
  const fs::path home = fs::path(testing::TempDir()) / "peng_hub_settings";
  fs::create_directories(home);
  std::ofstream(home / "token") << "hf_file\n";
  EXPECT_EQ(ReadHubSettings("", {{"HF_HOME", home.string()}}).token, "hf_file");
  EXPECT_EQ(ReadHubSettings("", {{"HF_HOME", home.string()}, {"HF_TOKEN", "hf_env"}}).token, "hf_env");
  EXPECT_EQ(ReadHubSettings("", {{"HF_TOKEN_PATH", (home / "token").string()}}).token, "hf_file");
  EXPECT_EQ(ReadHubSettings("", {{"HF_HUB_OFFLINE", "1"}}).offline_because, "HF_HUB_OFFLINE");
  EXPECT_EQ(ReadHubSettings("", {{"TRANSFORMERS_OFFLINE", "yes"}}).offline_because, "TRANSFORMERS_OFFLINE");
  EXPECT_FALSE(ReadHubSettings("", {{"HF_HUB_OFFLINE", "0"}}).offline());
  EXPECT_EQ(ReadHubSettings("", {{"SSL_CERT_FILE", (home / "token").string()}}).ca_path, (home / "token").string());
  fs::remove_all(home);
}

TEST(HubSettings, BadOnesNameTheVariable) {
  for (const auto& [name, value] : base::Settings{{"HF_ENDPOINT", "ftp://x"},
                                                  {"HF_ENDPOINT", "https://x/?a"},
                                                  {"HF_TOKEN", "a b"},
                                                  {"HF_TOKEN", "a\r\nX: y"},
                                                  {"SSL_CERT_FILE", "/nowhere/ca.pem"}}) {
    try {
      ReadHubSettings("", {{name, value}});
      FAIL() << name;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(ReadHubSettings("elsewhere", {}), base::Error);
}

TEST(CachePaths, FollowTheClientsVariables) {
  const CachePaths plain = ReadCachePaths({{"HOME", "/h"}});
  EXPECT_EQ(plain.peng_home, "/h/.cache/peng");
  EXPECT_EQ(plain.hugging_face_hub, "/h/.cache/huggingface/hub");
  EXPECT_EQ(plain.model_scope, "/h/.cache/modelscope");
  EXPECT_EQ(ReadCachePaths({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}}).hugging_face_hub, "/c/huggingface/hub");
  EXPECT_EQ(ReadCachePaths({{"HOME", "/h"}, {"HF_HOME", "~/f"}}).hugging_face_hub, "/h/f/hub");
  EXPECT_EQ(ReadCachePaths({{"HOME", "/h"}, {"HF_HOME", "/f"}, {"HF_HUB_CACHE", "/g"}}).hugging_face_hub, "/g");
}

TEST(Http, OriginsAndEscapes) {
  EXPECT_EQ(OriginOf("HTTPS://Host/a?b"), "https://host:443");
  EXPECT_EQ(OriginOf("http://u:p@host:81/"), "http://host:81");
  EXPECT_EQ(OriginOf("https://host@evil.example/"), "https://evil.example:443");
  for (const char* none : {"", "host", "file:///etc/passwd", "ftp://h/"}) EXPECT_EQ(OriginOf(none), "") << none;
  EXPECT_EQ(EscapeUrl("a/b c?&#%模", true), "a/b%20c%3F%26%23%25%E6%A8%A1");
  EXPECT_EQ(EscapeUrl("a/b", false), "a%2Fb");
}

TEST(Backoff, FollowsRetryAfter) {
  HttpReply reply;
  for (int attempt = 1; attempt < 100; ++attempt) {
    EXPECT_GE(BackoffSeconds(attempt, reply), 0.3);
    EXPECT_LE(BackoffSeconds(attempt, reply), 40);
  }
  const std::vector<std::pair<const char*, double>> cases{{"0", 0}, {"2", 2}, {"1000", -1}, {"inf", -1}};
  for (const auto& [text, seconds] : cases) {
    reply.headers["retry-after"] = text;
    EXPECT_EQ(BackoffSeconds(1, reply), seconds) << text;
  }
  for (const char* other : {"Wed, 21 Oct 2015 07:28:00 GMT", "-1", "nan", "2x"}) {
    reply.headers["retry-after"] = other;
    EXPECT_GT(BackoffSeconds(1, reply), 0.3) << other;
    EXPECT_LT(BackoffSeconds(1, reply), 1) << other;
  }
}

}  // namespace
}  // namespace peng::hub
