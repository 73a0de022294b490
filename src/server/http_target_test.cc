// SPDX-License-Identifier: Apache-2.0
#include "server/http_target.h"

#include <gtest/gtest.h>

namespace peng::server {
namespace {

std::string Path(std::string_view target, std::string_view root = "") {
  const auto parsed = ParseTarget(target, root);
  return parsed ? parsed->path : "(none)";
}

TEST(HttpTarget, PathsAndQueries) {
  EXPECT_EQ(Path("/"), "/");
  EXPECT_EQ(Path("/v1/models?a=/b?c"), "/v1/models");
  EXPECT_EQ(ParseTarget("/v1/models?a=/b?c", "")->query, "a=/b?c");
  EXPECT_EQ(Path("/v1/models/org%2Fname%20x"), "/v1/models/org/name x");
  EXPECT_EQ(Path("/%e4%bd%a0"), "/\xe4\xbd\xa0");
  EXPECT_EQ(Path("*"), "*");
}

TEST(HttpTarget, WholeUrls) {
  EXPECT_EQ(Path("http://a:80/v1/models?x"), "/v1/models");
  EXPECT_EQ(Path("https://[::1]"), "/");
  EXPECT_EQ(Path("http://a?x=1"), "/");
  EXPECT_EQ(Path("http://"), "(none)");
  EXPECT_EQ(Path("http:///x"), "(none)");
}

TEST(HttpTarget, WhatIsNone) {
  for (const char* target :
       {"", "x", "a:443", "?x", "/%", "/%4", "/%4g", "/%00", "/a%0d%0ab", "/%7f", "**", "ftp://a/"}) {
    EXPECT_EQ(Path(target), "(none)") << target;
  }
}

TEST(HttpTarget, RootPath) {
  EXPECT_EQ(Path("/llm/v1/models", "/llm"), "/v1/models");
  EXPECT_EQ(Path("/llm", "/llm"), "/");
  EXPECT_EQ(Path("/llm/", "/llm"), "/");
  EXPECT_EQ(Path("/v1/models", "/llm"), "/v1/models");
  EXPECT_EQ(Path("/llmx/v1", "/llm"), "/llmx/v1");
  EXPECT_EQ(NormalRootPath("llm/"), "/llm");
  EXPECT_EQ(NormalRootPath("//a/b//"), "/a/b");
  EXPECT_EQ(NormalRootPath("/"), "");
}

}  // namespace
}  // namespace peng::server
