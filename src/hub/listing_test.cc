// SPDX-License-Identifier: Apache-2.0
#include "hub/listing.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "hub/manifest.h"

namespace peng::hub {
namespace {

const std::string kSha(64, 'a'), kGit(40, 'b');

TEST(Listing, HuggingFace) {
  EXPECT_EQ(ParseHuggingFaceCommit(R"({"id": "org/m", "sha": ")" + kGit + "\"}", "hub"), kGit);
  EXPECT_THROW(ParseHuggingFaceCommit(R"({"sha": "main"})", "hub"), base::Error);
  const auto files = ParseHuggingFaceTree(
      R"([{"type": "directory", "path": "d", "oid": "x", "size": 0},
          {"type": "file", "path": "d/config.json", "oid": ")" +
          kGit + R"(", "size": 12},
          {"type": "file", "path": "m.gguf", "oid": ")" +
          kGit + R"(", "size": 130,
           "lfs": {"oid": ")" +
          kSha + R"(", "size": 5000, "pointerSize": 130}}])",
      "hub");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].git_sha1, kGit);
  EXPECT_EQ(files[0].size, 12);
  EXPECT_EQ(files[1].sha256, kSha);
  EXPECT_EQ(files[1].size, 5000);
  EXPECT_EQ(files[1].git_sha1, "");
}

TEST(Listing, ModelScope) {
  const auto files = ParseModelScopeFiles(
      R"({"Code": 200, "Data": {"Files": [
          {"Type": "tree", "Path": "d", "Size": 0},
          {"Type": "blob", "Path": "d/a.bin", "Size": 7, "Sha256": ")" +
          kSha + R"("}]}})",
      "hub");
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].path, "d/a.bin");
  EXPECT_EQ(files[0].sha256, kSha);
}

TEST(Listing, HostileOnesAreRefused) {
  std::string deep(100'000, '[');
  for (const std::string& text : {std::string("{}"), std::string("not json"), std::string(R"({"a": 1})"), deep,
                                  std::string(R"([{"type": "file", "path": "../../etc/passwd", "size": 1}])"),
                                  std::string(R"([{"type": "file", "path": "/etc/passwd", "size": 1}])"),
                                  std::string(R"([{"type": "file", "size": 1}])"),
                                  std::string(R"([{"type": "file", "path": "a"}, {"type": "file", "path": "a"}])"),
                                  std::string(kMaxListingBytes + 1, ' ')}) {
    EXPECT_THROW(ParseHuggingFaceTree(text, "hub"), base::Error) << text.substr(0, 60);
    std::string scope = R"({"Data": {"Files": )" + text + "}}";
    for (size_t at = 0; (at = scope.find("\"file\"", at)) != std::string::npos;) scope.replace(at, 6, "\"blob\"");
    for (const auto& [from, to] : {std::pair("\"type\"", "\"Type\""), std::pair("\"path\"", "\"Path\"")}) {
      for (size_t at = 0; (at = scope.find(from, at)) != std::string::npos;) scope.replace(at, 6, to);
    }
    EXPECT_THROW(ParseModelScopeFiles(scope, "hub"), base::Error) << scope.substr(0, 60);
  }
}

TEST(Listing, NextPage) {
  EXPECT_EQ(NextPage(R"(<https://h/api?cursor=a%3D>; rel="next")"), "https://h/api?cursor=a%3D");
  EXPECT_EQ(NextPage(R"(<https://h/1>; rel="prev", <https://h/2>; rel="next")"), "https://h/2");
  for (const char* none : {"", "<", "<x", "<x>", "x; rel=\"next\"", R"(<https://h/1>; rel="prev")"}) {
    EXPECT_EQ(NextPage(none), "") << none;
  }
}

TEST(Listing, Refusal) {
  EXPECT_EQ(ParseRefusal(R"({"error": "Repository\u0007 not found"})"),
            ParseRefusal(R"({"Message": "Repository\u0007 not found"})"));
  EXPECT_EQ(ParseRefusal("<html>"), "");
}

TEST(Manifest, RoundTripAndRefusals) {
  const Manifest manifest{"org/m", "https://h", "main", kGit, {{"a/b.txt", 3, kSha, kGit}, {"c", 0, kSha, ""}}};
  const std::string text = WriteManifest(manifest);
  const Manifest again = ParseManifest(text, "x");
  EXPECT_EQ(WriteManifest(again), text);
  EXPECT_EQ(again.Find("c")->sha256, kSha);
  EXPECT_EQ(again.Find("d"), nullptr);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"\"format\":1", "\"format\":2"},
                                                                                 {"org/m", "../m"},
                                                                                 {"a/b.txt", "../b.txt"},
                                                                                 {"\"size\":3", "\"size\":-3"},
                                                                                 {kSha, "ff"},
                                                                                 {"org/m", "org/m:tag"}}) {
    std::string bad = text;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_THROW(ParseManifest(bad, "x"), base::Error) << bad;
  }
}

}  // namespace
}  // namespace peng::hub
