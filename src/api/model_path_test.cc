// SPDX-License-Identifier: Apache-2.0
#include "api/model_path.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace peng::api {
namespace {

namespace fs = std::filesystem;

class ModelPath : public testing::Test {
 protected:
  ModelPath() : home_(fs::path(testing::TempDir()) / "peng_find_model") {
    fs::remove_all(home_);
    ::setenv("PENG_HOME", home_.c_str(), 1);
    ::setenv("HF_HOME", (home_ / "hf").c_str(), 1);
    ::setenv("MODELSCOPE_CACHE", (home_ / "ms").c_str(), 1);
    ::unsetenv("HF_HUB_CACHE");
  }
  ~ModelPath() override {
    fs::remove_all(home_);
    for (const char* name : {"PENG_HOME", "HF_HOME", "MODELSCOPE_CACHE"}) ::unsetenv(name);
  }

  fs::path home_;
};

TEST_F(ModelPath, PathsNamesAndNeither) {
  const fs::path models = home_ / "models";
  fs::create_directories(models / "One");
  fs::create_directories(models / "org" / "Folder");
  std::ofstream(models / "One" / "one.Q4_0.gguf") << "x";
  std::ofstream(models / "org" / "Folder" / "config.json") << "{}";
  std::ofstream(models / "org" / "Folder" / "model.safetensors") << "x";

  EXPECT_EQ(FindModel("One"), (models / "One" / "one.Q4_0.gguf").string());
  EXPECT_EQ(FindModel("org/Folder"), (models / "org" / "Folder").string());
  EXPECT_EQ(FindModel((models / "One").string()), (models / "One").string());
  EXPECT_EQ(FindModel("Nothing"), "Nothing");
  EXPECT_EQ(FindModel("../models/One"), "../models/One");

  std::ofstream(models / "One" / "two.Q8_0.gguf") << "x";
  EXPECT_EQ(FindModel("One:q8_0"), (models / "One" / "two.Q8_0.gguf").string());
  EXPECT_THROW(FindModel("One"), base::Error);
}

TEST_F(ModelPath, OfflineIsAnErrorThatSaysWhereItLooked) {
  base::ServeOptions options;
  options.model = "org/none";
  options.offline = true;
  try {
    ResolveModel(options);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
    const std::string text = error.what();
    EXPECT_NE(text.find((home_ / "models/org/none").string()), std::string::npos) << text;
    EXPECT_NE(text.find((home_ / "hf/hub/models--org--none").string()), std::string::npos) << text;
    EXPECT_NE(text.find("--offline"), std::string::npos) << text;
  }
}

std::string ErrorOf(const std::string& model, const std::string& revision, base::ErrorKind kind) {
  base::ServeOptions options;
  options.model = model;
  options.revision = revision;
  try {
    CheckModelName(options);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "";
}

TEST_F(ModelPath, WhatCanBeSaidBeforeTheNetworkIsUsed) {
  fs::create_directories(home_);
  EXPECT_EQ(ErrorOf(home_.string(), "", base::ErrorKind::kUsage), "");
  EXPECT_EQ(ErrorOf("org/none", "v1", base::ErrorKind::kUsage), "");
  EXPECT_EQ(ErrorOf(home_.string(), "v1", base::ErrorKind::kUsage),
            "--revision: " + home_.string() +
                " is a file or folder, which has none; leave it out, or name a model of a "
                "hub as ORG/NAME");
  for (const char* missing : {"Nothing", "/no/such/file", "none.gguf"}) {
    EXPECT_EQ(ErrorOf(missing, "", base::ErrorKind::kModelFile),
              std::string(missing) +
                  ": there is no such file or folder; name one that is there as MODEL, or a model of a "
                  "hub as ORG/NAME, which is pulled");
  }
  try {
    FindModel("org/none");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("fetch it with peng pull org/none"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace peng::api
