// SPDX-License-Identifier: Apache-2.0
#include "api/model_path.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace peng::api {
namespace {

namespace fs = std::filesystem;

TEST(FindModel, PathsNamesAndNeither) {
  const fs::path home = fs::path(testing::TempDir()) / "peng_find_model";
  const fs::path models = home / "models";
  fs::create_directories(models / "One");
  fs::create_directories(models / "org" / "Folder");
  std::ofstream(models / "One" / "one.Q4_0.gguf") << "x";
  std::ofstream(models / "org" / "Folder" / "config.json") << "{}";

  EXPECT_EQ(FindModel("One", home), (models / "One" / "one.Q4_0.gguf").string());
  EXPECT_EQ(FindModel("org/Folder", home), (models / "org" / "Folder").string());
  EXPECT_EQ(FindModel((models / "One").string(), home), (models / "One").string());
  EXPECT_EQ(FindModel("Nothing", home), "Nothing");
  EXPECT_EQ(FindModel("../models/One", home), "../models/One");

  std::ofstream(models / "One" / "two.gguf") << "x";
  EXPECT_EQ(FindModel("One", home), (models / "One").string());
  fs::remove_all(home);
}

}  // namespace
}  // namespace peng::api
