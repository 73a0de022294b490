// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/error.h"

namespace peng::base {
namespace {

using Flags = std::map<std::string, std::vector<std::string>>;

std::string UsageError(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    return e.what();
  }
  return "no error";
}

std::string ErrorOfFlag(const std::string& name, const std::vector<std::string>& values) {
  return UsageError([&] { ResolveServeOptions({{name, values}}, {}); });
}

class ConfigFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "peng-options-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string ErrorOf(const std::string& name, const std::string& text) {
    const std::string path = Write(name, text);
    ServeOptions options;
    const std::string what = UsageError([&] { LoadConfigFile(path, &options); });
    return what.rfind(path, 0) == 0 ? what.substr(path.size()) : "does not name the file: " + what;
  }

  std::string folder_;
};

TEST(OptionTable, NamesAreUniqueAndDefaultsValid) {
  std::set<std::string> names;
  for (const OptionSpec& spec : ServeOptionTable()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_NE(std::string(spec.help), "");
    ServeOptions options;
    if (!spec.is_list()) SetOption(spec, std::vector<std::string>{spec.default_text()}, spec.flag(), &options);
  }
  EXPECT_EQ(FindOption("max_num_seqs")->env(), "PENG_MAX_NUM_SEQS");
  EXPECT_EQ(FindOption("max-num-seqs")->default_text(), "128");
  EXPECT_EQ(FindOption("gpu-memory-utilization")->default_text(), "0.92");
  EXPECT_EQ(FindOption("dtype")->choices(), (std::vector<std::string>{"auto", "float32"}));
  EXPECT_EQ(FindOption("nothing"), nullptr);
}

TEST(OptionTable, EveryFieldCanBeSet) {
  const ServeOptions o = ResolveServeOptions({{"model", {"m"}},
                                              {"served-model-name", {"a", "b"}},
                                              {"port", {"9000"}},
                                              {"max_model_len", {"32K"}},
                                              {"gpu-memory-utilization", {"0.5"}},
                                              {"enable-prefix-caching", {"false"}},
                                              {"kv-cache-memory-bytes", {"1.5GiB"}},
                                              {"dtype", {"float32"}}},
                                             {});
  EXPECT_EQ(o.model, "m");
  EXPECT_EQ(o.served_model_name, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.port, 9000);
  EXPECT_EQ(o.max_model_len, 32768);
  EXPECT_EQ(o.gpu_memory_utilization, 0.5);
  EXPECT_FALSE(o.enable_prefix_caching);
  EXPECT_EQ(o.kv_cache_memory_bytes, 3 << 29);
  EXPECT_EQ(o.dtype, "float32");
  EXPECT_EQ(o.max_num_batched_tokens, 2048);
}

TEST(Options, BadValuesAreNamedWithWhatWouldDo) {
  EXPECT_EQ(ErrorOfFlag("port", {"70000"}), "--port: \"70000\" is out of range; use 0 to 65535");
  EXPECT_EQ(ErrorOfFlag("kv-cache-memory-bytes", {"-1"}),
            "--kv-cache-memory-bytes: \"-1\" is out of range; use 0 to 1048576T");
  EXPECT_EQ(ErrorOfFlag("max-model-len", {"9T"}), "--max-model-len: \"9T\" is out of range; use -1 to 1G");
  EXPECT_EQ(ErrorOfFlag("port", {"80x"}), "--port: \"80x\" is no integer; use 0 to 65535");
  EXPECT_EQ(ErrorOfFlag("port", {""}), "--port: \"\" is no integer; use 0 to 65535");
  EXPECT_EQ(ErrorOfFlag("port", {"1", "2"}), "--port: takes one value, not a list");
  EXPECT_EQ(ErrorOfFlag("dtype", {"half"}), "--dtype: \"half\" is not supported; use auto, float32");
  EXPECT_EQ(ErrorOfFlag("enable-prefix-caching", {"maybe"}),
            "--enable-prefix-caching: \"maybe\" is neither true nor false; use true or false");
  EXPECT_EQ(ErrorOfFlag("gpu-memory-utilization", {"nan"}),
            "--gpu-memory-utilization: \"nan\" is no number; use 0.01 to 1");
  EXPECT_EQ(ErrorOfFlag("max-nmu-seqs", {"1"}), "--max-nmu-seqs: is no option; did you mean max-num-seqs?");
  EXPECT_EQ(ErrorOfFlag("zzz", {"1"}), "--zzz: is no option; see peng serve --help");
}

TEST(Options, Sizes) {
  const auto size = [](const std::string& text) {
    return ResolveServeOptions({{"kv-cache-memory-bytes", {text}}}, {}).kv_cache_memory_bytes;
  };
  EXPECT_EQ(size("4096"), 4096);
  EXPECT_EQ(size("4k"), 4000);
  EXPECT_EQ(size("4K"), 4096);
  EXPECT_EQ(size("4Ki"), 4096);
  EXPECT_EQ(size("25.6k"), 25600);
  EXPECT_EQ(size("2G"), int64_t{2} << 30);
  for (const char* bad : {"", "K", "1.5", "-1", "4X", "1e3", "4kiB", "9999999T", "4 K", "--1", "."}) {
    EXPECT_NE(ErrorOfFlag("kv-cache-memory-bytes", {bad}), "no error") << bad;
  }
  EXPECT_EQ(ResolveServeOptions({{"max-model-len", {"-1"}}}, {}).max_model_len, -1);
}

TEST(Options, EnvironmentAndItsTypos) {
  const Settings environment = {{"PENG_PORT", "9001"}, {"PENG_SERVED_MODEL_NAME", "a,b"}, {"PENG_HOST", ""},
                                {"PENG_HOME", "/x"},   {"PENG_MAX_NUM_SEQ", "4"},         {"HOME", "/h"}};
  const ServeOptions o = ResolveServeOptions({}, environment);
  EXPECT_EQ(o.port, 9001);
  EXPECT_EQ(o.served_model_name, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.host, "");
  EXPECT_EQ(UnknownVariables(environment),
            std::vector<std::string>{"environment variable PENG_MAX_NUM_SEQ is not known and ignored; did you mean "
                                     "PENG_MAX_NUM_SEQS?"});
  EXPECT_EQ(UsageError([] { ResolveServeOptions({}, {{"PENG_PORT", "x"}}); }),
            "PENG_PORT: \"x\" is no integer; use 0 to 65535");
  EXPECT_EQ(PengHome(environment), "/x");
  EXPECT_EQ(PengHome({{"HOME", "/h"}}), "/h/.cache/peng");
  EXPECT_THROW(PengHome({}), Error);
}

TEST(Options, VllmsKeyVariableIsTakenUnlessOursIsSet) {
  using Keys = std::vector<std::string>;
  EXPECT_EQ(ResolveServeOptions({}, {{"VLLM_API_KEY", "a,b"}}).api_key, Keys{"a,b"});
  EXPECT_EQ(ResolveServeOptions({}, {{"VLLM_API_KEY", ""}}).api_key, Keys{});
  EXPECT_EQ(ResolveServeOptions({}, {{"VLLM_API_KEY", "a"}, {"PENG_API_KEY", "b,c"}}).api_key, (Keys{"b", "c"}));
  EXPECT_EQ(ResolveServeOptions({{"api-key", {"d"}}}, {{"VLLM_API_KEY", "a"}}).api_key, Keys{"d"});
  EXPECT_TRUE(UnknownVariables({{"VLLM_API_KEY", "a"}}).empty());
  ::setenv("VLLM_API_KEY", "e", 1);
  const Settings environment = PengEnvironment();
  ::unsetenv("VLLM_API_KEY");
  EXPECT_EQ(ResolveServeOptions({}, environment).api_key, Keys{"e"});
}

TEST(Options, SettingsAreShownWithoutSecrets) {
  ServeOptions options;
  options.api_key = {"s3cret"};
  options.port = 9;
  Json settings = SettingsJson(options);
  EXPECT_EQ(*settings.Find("api-key"), Json(true));
  EXPECT_EQ(*settings.Find("admin-key"), Json(false));
  EXPECT_EQ(*settings.Find("port"), Json(9));
  EXPECT_EQ(settings.Dump().find("s3cret"), std::string::npos);
  EXPECT_EQ(settings.as_object().size(), ServeOptionTable().size());
}

TEST(Options, ReadsTheProcessEnvironment) {
  ::setenv("PENG_PORT", "9002", 1);
  const Settings environment = PengEnvironment();
  ::unsetenv("PENG_PORT");
  EXPECT_EQ(ResolveServeOptions({}, environment).port, 9002);
}

TEST_F(ConfigFileTest, PrecedenceIsFlagEnvironmentConfigDefault) {
  const std::string path = Write("c.yaml", "port: 1\nmax_num_seqs: 1\nmax-num-batched-tokens: 1\nseed: 1\n");
  const ServeOptions o =
      ResolveServeOptions({{"config", {path}}, {"port", {"3"}}}, {{"PENG_PORT", "2"}, {"PENG_MAX_NUM_SEQS", "2"}});
  EXPECT_EQ(o.port, 3);
  EXPECT_EQ(o.max_num_seqs, 2);
  EXPECT_EQ(o.max_num_batched_tokens, 1);
  EXPECT_EQ(o.max_logprobs, 20);
  EXPECT_EQ(ResolveServeOptions({}, {{"PENG_CONFIG", path}}).seed, 1);
}

TEST_F(ConfigFileTest, YamlAndJsonMeanTheSame) {
  const std::string yaml = Write("c.yaml",
                                 "model: /m\nserved_model_name: [a, b]\nenable-prefix-caching: false\n"
                                 "gpu_memory_utilization: 0.5\nkv-cache-memory-bytes: 4G\n");
  const std::string json = Write("c.json",
                                 R"({"model": "/m", "served_model_name": ["a", "b"], "enable-prefix-caching": false,
                                     "gpu_memory_utilization": 0.5, "kv-cache-memory-bytes": "4G"})");
  for (const std::string& path : {yaml, json}) {
    ServeOptions o;
    LoadConfigFile(path, &o);
    EXPECT_EQ(o.model, "/m");
    EXPECT_EQ(o.served_model_name, (std::vector<std::string>{"a", "b"}));
    EXPECT_FALSE(o.enable_prefix_caching);
    EXPECT_EQ(o.gpu_memory_utilization, 0.5);
    EXPECT_EQ(o.kv_cache_memory_bytes, int64_t{4} << 30);
  }
}

TEST_F(ConfigFileTest, AnEmptyFileSetsNothing) {
  ServeOptions o;
  LoadConfigFile(Write("c.yaml", "# nothing\n"), &o);
  EXPECT_EQ(o.port, 8000);
}

TEST_F(ConfigFileTest, UnknownKeysNameTheNearest) {
  EXPECT_EQ(ErrorOf("a.yaml", "max_num_sequences: 3\n"),
            ": \"max_num_sequences\" is no option; did you mean max-num-seqs?");
  EXPECT_EQ(ErrorOf("a.json", R"({"prot": 3})"), ": \"prot\" is no option; did you mean port?");
  EXPECT_EQ(ErrorOf("a.yaml", "quite_another_thing: 3\n"),
            ": \"quite_another_thing\" is no option; see peng serve --help");
}

TEST_F(ConfigFileTest, FaultsAreOneLineWithThePlace) {
  EXPECT_EQ(ErrorOf("a.yaml", "port: [1\n").substr(0, 8), ": line 2");
  EXPECT_EQ(ErrorOf("a.yaml", "- port\n"), ": line 1: must be a mapping from option names to values");
  EXPECT_EQ(ErrorOf("a.yaml", "port: {x: 1}\n"), ": line 1: \"port\" needs a value or a list of values");
  EXPECT_EQ(ErrorOf("a.yaml", "port:\n").substr(0, 8), ": line 1");
  EXPECT_EQ(ErrorOf("a.yaml", "port: 1\nport: 2\n"), ": \"port\" is given twice; keep one of them");
  EXPECT_EQ(ErrorOf("a.yaml", "api_key: k\napi-key: j\n"), ": \"api-key\" is given twice; keep one of them");
  EXPECT_EQ(ErrorOf("a.json", R"({"port": 1, "port": 2})"), ": not valid JSON: duplicate key at byte 17");
  EXPECT_EQ(ErrorOf("a.yaml", "port: 1\n---\nhost: ::1\n"),
            ": line 3: holds a second document, which nothing would read; keep one");
  EXPECT_EQ(ErrorOf("a.yaml", "middleware: x.y\n"),
            ": \"middleware\" is no option; peng loads no Python code; leave it out, or put a proxy in front");
  EXPECT_EQ(ErrorOf("a.yaml", "port: x\n"), ": port: \"x\" is no integer; use 0 to 65535");
  EXPECT_EQ(ErrorOf("a.json", R"({"architectures": ["LlamaForCausalLM"], "rope_scaling": {"a": 1}})"),
            ": \"architectures\" is no option; this is the configuration of a model: name its folder as MODEL");
  EXPECT_EQ(ErrorOf("a.json", R"({"prot": {"a": 1}})"), ": \"prot\" is no option; did you mean port?");
  EXPECT_EQ(ErrorOf("a.yaml", "prot: {a: 1}\n"), ": \"prot\" is no option; did you mean port?");
  EXPECT_EQ(ErrorOf("a.json", "{"), ": not valid JSON: unexpected end of input; expected string literal at byte 1");
  EXPECT_EQ(ErrorOf("a.json", "[]"), ": must be an object of option names and values");
  EXPECT_EQ(ErrorOf("a.json", R"({"port": null})"), ": port: must be a plain value or a list of them, not null");
  EXPECT_EQ(ErrorOf("a.yaml", std::string(200000, '[')).find('\n'), std::string::npos);
  ServeOptions o;
  EXPECT_EQ(UsageError([&] { LoadConfigFile(folder_ + "/none.yaml", &o); }),
            folder_ + "/none.yaml: cannot open: No such file or directory");
}

TEST(Environment, AServiceAddressIsNoPort) {
  const ServeOptions o = ResolveServeOptions({}, {{"PENG_PORT", "tcp://10.0.0.1:8000"}});
  EXPECT_EQ(o.port, 8000);
  EXPECT_EQ(ResolveServeOptions({{"port", {"9"}}}, {{"PENG_PORT", "tcp://10.0.0.1:8000"}}).port, 9);
  EXPECT_TRUE(UnknownVariables({{"PENG_SERVICE_HOST", "10.0.0.1"}, {"PENG_PORT_8000_TCP_ADDR", "10.0.0.1"}}).empty());
  EXPECT_EQ(UsageError([] { ResolveServeOptions({}, {{"PENG_PORT", "eighty"}}); }),
            "PENG_PORT: \"eighty\" is no integer; use 0 to 65535");
}

TEST(Lists, MayBeJson) {
  using Words = std::vector<std::string>;
  const Words two = {"https://a", "https://b"};
  const std::string json = R"(["https://a", "https://b"])";
  EXPECT_EQ(ResolveServeOptions({{"allowed-origins", {json}}}, {}).allowed_origins, two);
  EXPECT_EQ(ResolveServeOptions({{"allowed-origins", two}}, {}).allowed_origins, two);
  EXPECT_EQ(ResolveServeOptions({}, {{"PENG_ALLOWED_ORIGINS", json}}).allowed_origins, two);
  EXPECT_EQ(ResolveServeOptions({}, {{"PENG_ALLOWED_ORIGINS", "https://a,https://b"}}).allowed_origins, two);
  EXPECT_EQ(ResolveServeOptions({}, {}).allowed_methods, Words{"*"});
  EXPECT_EQ(ErrorOfFlag("allowed-origins", {"[\"a\""}),
            "--allowed-origins: \"[\"a\"\" is no JSON list; use '[\"a\", \"b\"]', or a b");
  // A key is taken as it is.
  EXPECT_EQ(ResolveServeOptions({{"api-key", {"[1]"}}}, {}).api_key, Words{"[1]"});
}

TEST(Uses, EveryCommandThatLoadsAModelTakesWhatNamesIt) {
  std::map<OptionUse, int> counts;
  for (const OptionSpec& spec : ServeOptionTable()) ++counts[spec.use()];
  EXPECT_EQ(counts[OptionUse::kLoading], 11);
  EXPECT_EQ(counts[OptionUse::kGenerating], 6);
  EXPECT_EQ(counts[OptionUse::kConversing], 3);
  EXPECT_EQ(FindOption("model")->use(), OptionUse::kLoading);
  EXPECT_EQ(FindOption("host")->use(), OptionUse::kServing);
}

}  // namespace
}  // namespace peng::base
