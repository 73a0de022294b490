// SPDX-License-Identifier: Apache-2.0
#include "hub/select.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "hub/remote_file.h"
#include "hub/repo_name.h"

namespace peng::hub {
namespace {

std::vector<RemoteFile> Files(std::initializer_list<const char*> paths) {
  std::vector<RemoteFile> files;
  for (const char* path : paths) files.push_back({path, 1000, "", ""});
  return files;
}

std::vector<std::string> Select(std::initializer_list<const char*> paths, const Selection& selection = {}) {
  std::vector<std::string> chosen;
  for (const RemoteFile& file : SelectFiles("org/m", Files(paths), selection)) chosen.push_back(file.path);
  return chosen;
}

using Paths = std::vector<std::string>;

TEST(RepoName, PartsAndTags) {
  EXPECT_EQ(ParseRepoName("org/name")->repo, "org/name");
  EXPECT_EQ(ParseRepoName("org/DeepSeek-R1.5_x:Q4_K_M")->tag, "Q4_K_M");
  EXPECT_FALSE(ParseRepoName("name")->has_owner());
  for (const char* bad :
       {"",        "/",     "a/",   "/a",   "a/b/c",  "../b",       "a/..",           ".a/b",  "a/b.", "a/b:",
        "a/b:c:d", "a b/c", "a\\b", "a/-b", "a/x..y", "model.gguf", "org/model.gguf", "a/b\n", "~/a",  "./a"}) {
    EXPECT_FALSE(ParseRepoName(bad)) << bad;
  }
  EXPECT_TRUE(IsRevision("refs/pr/1"));
  EXPECT_TRUE(IsRevision("v1.0"));
  for (const char* bad : {"", "..", "a/../b", "/a", "a//b", "a b", "-a"}) EXPECT_FALSE(IsRevision(bad)) << bad;
}

TEST(PathFault, RefusesWhatLeavesTheFolder) {
  for (const char* good : {"a", "a/b.c", "模型.json", "a..b", ".gitattributes", "a/.peng"})
    EXPECT_EQ(PathFault(good), "") << good;
  for (const char* bad :
       {"", "/a", "..", "../a", "a/../b", "a/..", "./a", "a//b", "a/", "a\\b", "a\nb", ".peng/lock", ".peng", "\xff"}) {
    EXPECT_NE(PathFault(bad), "") << bad;
  }
  EXPECT_NE(PathFault(std::string("a\0b", 3)), "");
  EXPECT_NE(PathFault(std::string(300, 'a')), "");
  EXPECT_NE(FilesFault(Files({"a", "b", "a"})), "");
  EXPECT_NE(FilesFault(Files({"a/b/c", "a/b"})), "");
  EXPECT_EQ(FilesFault(Files({"a/b", "ab", "a/c"})), "");
}

TEST(SelectFiles, SafetensorsWithWhatBelongsToThem) {
  const Paths want{"LICENSE",
                   "chat_template.jinja",
                   "config.json",
                   "generation_config.json",
                   "model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors",
                   "model.safetensors.index.json",
                   "tokenizer.json"};
  EXPECT_EQ(Select({"LICENSE", "README.md", "chat_template.jinja", "config.json", "consolidated.safetensors",
                    "figures/a.png", "generation_config.json", "model-00001-of-00002.safetensors",
                    "model-00002-of-00002.safetensors", "model.safetensors.index.json", "modeling_x.py",
                    "onnx/model.safetensors", "pytorch_model.bin", "tokenizer.json"}),
            want);
}

TEST(SelectFiles, OneGgufOfSeveral) {
  const auto repo = {
      "LICENSE",         "M-Q4_K.gguf",  "M-Q4_K_M.gguf", "M.Q8_0-00001-of-00002.gguf", "M.Q8_0-00002-of-00002.gguf",
      "Q2_K/M-big.gguf", "mmproj-M.gguf"};
  EXPECT_EQ(Select(repo, {"q4_k_m", {}, {}}), (Paths{"LICENSE", "M-Q4_K_M.gguf"}));
  EXPECT_EQ(Select(repo, {"Q4_K", {}, {}}), (Paths{"LICENSE", "M-Q4_K.gguf"}));
  EXPECT_EQ(Select(repo, {"Q8_0", {}, {}}),
            (Paths{"LICENSE", "M.Q8_0-00001-of-00002.gguf", "M.Q8_0-00002-of-00002.gguf"}));
  EXPECT_EQ(Select(repo, {"Q2_K", {}, {}}), (Paths{"LICENSE", "Q2_K/M-big.gguf"}));
  EXPECT_EQ(Select({"M-Q4_0.gguf", "README.md"}), (Paths{"M-Q4_0.gguf"}));
  for (const char* tag : {"", "Q5_0", "K_M4", "4_K_M"}) EXPECT_THROW(Select(repo, {tag, {}, {}}), base::Error) << tag;
  try {
    Select(repo);
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("Q4_K (1.0 kB), Q4_K_M (1.0 kB), Q8_0 (2.0 kB), big (1.0 kB)"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(Select({"M-00001-of-00003.gguf", "M-00003-of-00003.gguf"}), base::Error);
}

TEST(SelectFiles, PatternsAndNothing) {
  EXPECT_EQ(Select({"a/b.txt", "a/c.bin", "d.txt"}, {"", {"*.txt"}, {"d*"}}), (Paths{"a/b.txt"}));
  EXPECT_EQ(Select({"a/b.txt", "d.txt"}, {"", {"a/"}, {}}), (Paths{"a/b.txt"}));
  EXPECT_EQ(Select({"config.json", "model.safetensors", "model2.safetensors"}, {"", {}, {"model2*"}}),
            (Paths{"config.json", "model.safetensors"}));
  EXPECT_THROW(Select({"a.txt"}, {"", {"*.bin"}, {}}), base::Error);
  EXPECT_THROW(Select({"pytorch_model.bin", "config.json"}), base::Error);
  EXPECT_THROW(Select({"a.gguf"}, {"a", {"*.gguf"}, {}}), base::Error);
}

TEST(BytesText, Units) {
  EXPECT_EQ(BytesText(0), "0 bytes");
  EXPECT_EQ(BytesText(999), "999 bytes");
  EXPECT_EQ(BytesText(1234), "1.2 kB");
  EXPECT_EQ(BytesText(93'000'000), "93.0 MB");
  EXPECT_EQ(BytesText(999'999'999), "1.0 GB");
}

}  // namespace
}  // namespace peng::hub
