// SPDX-License-Identifier: Apache-2.0
#include "hub/cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace peng::hub {
namespace {

namespace fs = std::filesystem;

class Caches : public testing::Test {
 protected:
  Caches() : root_(fs::path(testing::TempDir()) / "peng_hub_caches") { fs::remove_all(root_); }
  ~Caches() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text = "x") {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string Find(const char* name, const char* revision = "") {
    const CachePaths paths{(root_ / "peng").string(), (root_ / "hf").string(), (root_ / "ms").string()};
    const auto found = FindInCaches(*ParseRepoName(name), revision, paths).path;
    return found ? fs::path(*found).lexically_relative(root_).string() : "";
  }

  const fs::path root_;
};

TEST_F(Caches, HuggingFaceSnapshotsOfRevisions) {
  const std::string repo = "hf/models--org--m.1/", commit(40, 'c');
  Write(repo + "blobs/1");
  Write(repo + "snapshots/" + commit + "/config.json");
  fs::create_symlink("../../blobs/1", root_ / repo / "snapshots" / commit / "model.safetensors");
  EXPECT_EQ(Find("org/m.1"), "");  // no ref says that this is the default branch
  Write(repo + "refs/main", commit);
  EXPECT_EQ(Find("org/m.1"), repo + "snapshots/" + commit);
  EXPECT_EQ(Find("org/m.1", commit.c_str()), repo + "snapshots/" + commit);
  EXPECT_EQ(Find("org/m.1", "v2"), "");
  Write(repo + "refs/main", "../../../../etc");
  EXPECT_EQ(Find("org/m.1"), "");
}

TEST_F(Caches, PartsThatAreMissingAreNoModel) {
  Write("ms/models/org/m/config.json");
  Write("ms/models/org/m/model-00001-of-00002.safetensors");
  EXPECT_EQ(Find("org/m"), "");
  Write("ms/models/org/m/model-00002-of-00002.safetensors");
  EXPECT_EQ(Find("org/m"), "ms/models/org/m");
}

TEST_F(Caches, ModelScopeLayouts) {
  for (const char* folder : {"ms/models/org--m.1/snapshots/master", "ms/models/org/m___1", "ms/hub/models/org/m___1",
                             "ms/hub/org/m___1", "ms/hub/org/m.1", "ms/org/m___1"}) {
    Write(std::string(folder) + "/config.json");
    Write(std::string(folder) + "/model.safetensors");
    EXPECT_EQ(Find("org/m.1"), folder);
    fs::remove_all(root_ / "ms");
  }
}

TEST_F(Caches, PengsOwnWithoutItsRecordsIsHandMade) {
  Write("peng/models/org/m/a.Q4_0.gguf");
  Write("peng/models/org/m/sub/b-Q8_0-00001-of-00002.gguf");
  Write("peng/models/org/m/sub/b-Q8_0-00002-of-00002.gguf");
  EXPECT_EQ(Find("org/m:Q4_0"), "peng/models/org/m/a.Q4_0.gguf");
  EXPECT_EQ(Find("org/m:q8_0"), "peng/models/org/m/sub/b-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(Find("org/m:Q5_0"), "");
  EXPECT_THROW(Find("org/m"), base::Error);
  EXPECT_EQ(Find("org/m:Q4_0", "v1"), "");  // nobody knows its revision
  Write("peng/models/org/m/.peng/publishing");
  EXPECT_EQ(Find("org/m:Q4_0"), "");  // a pull that did not end
}

}  // namespace
}  // namespace peng::hub
