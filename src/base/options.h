// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"

namespace peng::base {

// Every setting of `peng serve`; names and defaults are vLLM's where vLLM has the setting.
struct ServeOptions {
  std::string model;                           // folder, .gguf or .safetensors file, or hub name
  std::string revision;                        // of a hub name; empty = the default branch
  std::string hub = "huggingface";             // huggingface, modelscope
  bool offline = false;                        // never use the network
  std::vector<std::string> served_model_name;  // empty = the name of `model`
  std::string host;                            // empty = 127.0.0.1, or all interfaces with an API key
  int64_t port = 8000;                         // 0 = any free one
  std::vector<std::string> api_key;            // with an empty file: no check
  std::string api_key_file;                    // named keys, see docs/configuration.md; empty = none
  std::string admin_key;                       // of the administrative endpoints; empty = they do not exist
  int64_t key_requests_per_minute = 0;         // of each key; 0 = no limit
  int64_t key_tokens_per_minute = 0;           // of each key, prompt and reply; 0 = no limit
  int64_t key_max_concurrency = 0;             // requests of each key that run or wait at once; 0 = no limit
  int64_t metrics_port = -1;                   // serves /metrics without a key; -1 = none, 0 = any free one
  std::string uds;                             // path of a Unix socket; empty = host and port
  std::string ssl_certfile, ssl_keyfile;       // PEM; without a certificate plain HTTP
  std::string ssl_ca_certs;                    // PEM; what client certificates are checked against
  int64_t ssl_cert_reqs = 0;                   // 0 none, 1 checked if sent, 2 required: the ssl module's of Python
  std::string ssl_ciphers;                     // OpenSSL's list for TLS 1.2; empty = its default
  bool enable_ssl_refresh = false;             // reload the TLS files when they change, not only on SIGHUP
  std::string root_path;                       // what a proxy puts in front of every path
  std::vector<std::string> allowed_origins;    // whose pages may use the server; empty = none
  std::vector<std::string> allowed_methods = {"*"};
  std::vector<std::string> allowed_headers = {"*"};
  bool allow_credentials = false;
  int64_t h11_max_incomplete_event_size = 64 << 10;  // bytes of a request's header
  int64_t h11_max_header_count = 128;
  int64_t max_body_bytes = 10 << 20;
  int64_t timeout_keep_alive = 75;      // seconds
  int64_t sse_keep_alive_interval = 0;  // seconds; 0 = no comments in silent streams

  std::string dtype = "auto";                // auto, float32
  int64_t max_model_len = 0;                 // tokens; 0 or -1 = the model's, or what fits in memory
  int64_t max_num_seqs = 128;                // requests that run at once
  int64_t max_num_batched_tokens = 2048;     // token budget of a step
  std::string scheduling_policy = "fcfs";    // fcfs, priority
  int64_t long_prefill_token_threshold = 0;  // tokens; 0 = half a step, where others wait for the rest
  int64_t max_num_partial_prefills = 2;      // prompts that are computed over several steps at the same time
  int64_t max_long_partial_prefills = 1;     // long ones among them
  int64_t max_num_queued_reqs = 0;           // requests that wait to run; 0 = no limit
  int64_t max_num_queued_tokens = 0;         // their prompt tokens; 0 = no limit
  int64_t block_size = 0;                    // tokens; 0 = the backend's
  std::string kv_cache_dtype = "auto";       // auto, bfloat16, float16, float32
  int64_t kv_cache_memory_bytes = 0;         // 0 = from gpu_memory_utilization and what is free
  double gpu_memory_utilization = 0.92;      // share of the device's memory that peng may use
  bool enable_prefix_caching = true;
  std::string batch_invariant = "default";  // default, strict
  int64_t cpu_threads = 0;                  // 0 = physical cores within the process's limits
  std::string max_isa;                      // empty = the best the CPU has
  std::string chat_template;                // file or text; empty = the model's
  std::string generation_config = "auto";   // auto, vllm
  int64_t max_logprobs = 20;
  int64_t seed = 0;
  double drain_timeout = 30.0;                // seconds that running requests get after SIGTERM
  std::string log_level = "info";             // debug, info, warning, error
  std::string log_format = "text";            // text, json
  bool enable_log_requests = false;           // one line per request when it ends
  int64_t slow_request_ms = 0;                // requests that take longer are logged; 0 = none
  bool log_prompts = false;                   // prompts and replies are logged, and core dumps allowed
  std::string audit_log;                      // file that gets one JSON line per request; empty = none
  bool isolate_prefix_cache = false;          // keys do not share cached prefixes
  bool strict_params = false;                 // unknown fields of requests are refused
  bool enable_prompt_tokens_details = false;  // usage tells the cached tokens
  bool enable_force_include_usage = false;    // streams end with the usage without being asked
};

// The commands that a setting has an effect on; each includes those before it.
enum class OptionUse {
  kLoading,     // perplexity, bench
  kGenerating,  // complete
  kConversing,  // chat
  kServing,     // serve
};

// One setting: flag --NAME, environment variable PENG_NAME, key NAME of the config file ('-' and '_' mean the same).
struct OptionSpec {
  using Field = std::variant<std::string ServeOptions::*, std::vector<std::string> ServeOptions::*,
                             int64_t ServeOptions::*, double ServeOptions::*, bool ServeOptions::*>;
  enum class Kind {
    kPlain,
    kPositional,  // also the command's first argument
    kSecret,      // a key, which is never shown
    kWords,       // a list that may also be written as JSON: '["a", "b"]'
    kSize,        // an integer that may carry a suffix: k m g t = powers of 1000, K M G T = powers of 1024
  };

  const char* name;  // "max-num-seqs"
  Field field;
  const char* metavar;  // "N"; of an option with choices "a|b|c"
  const char* help;
  Kind kind = Kind::kPlain;
  double min = 0;  // inclusive bounds of numbers
  double max = 0;  // min == max: no bounds

  bool is_bool() const { return std::holds_alternative<bool ServeOptions::*>(field); }
  bool is_list() const { return std::holds_alternative<std::vector<std::string> ServeOptions::*>(field); }
  // Values allowed for a string option, empty = any.
  std::vector<std::string> choices() const;
  std::string flag() const { return std::string("--") + name; }
  std::string env() const;           // "PENG_MAX_NUM_SEQS"
  std::string default_text() const;  // of a default-constructed ServeOptions
  OptionUse use() const;             // the first that it has an effect on
};

// Every setting by name with its value; of secrets only whether they are set.
Json SettingsJson(const ServeOptions& options);

// The one table of settings, in the order of `peng serve --help`.
std::span<const OptionSpec> ServeOptionTable();

// Null if there is none of that name; '-' and '_' mean the same.
const OptionSpec* FindOption(std::string_view name);

// The one of `names` closest to a misspelt one; empty if nothing is close.
std::string Nearest(std::string_view name, std::span<const std::string_view> names);

// The same among the table's names, without dashes in front.
std::string NearestOption(std::string_view name);

// Sets one option from text. Several values are for list options only. Throws Error(kUsage) that starts with `where`
// ("--port", "PENG_PORT", "peng.yaml: port").
void SetOption(const OptionSpec& spec, std::span<const std::string> values, std::string_view where,
               ServeOptions* options);

// Name-value pairs, e.g. what an environment holds.
using Settings = std::vector<std::pair<std::string, std::string>>;

// The variables of the process's environment that start with PENG_, HOME and VLLM_API_KEY.
Settings PengEnvironment();

// Variables that start with PENG_ and set nothing, each as one line that names the nearest valid one.
std::vector<std::string> UnknownVariables(const Settings& environment);

// Reads a config file (JSON by its name .json, else YAML): one mapping from option names to values. Throws
// Error(kUsage) that names the file, the key and, for an unknown key, the nearest valid one.
void LoadConfigFile(const std::string& path, ServeOptions* options);

// All sources together: a flag beats the environment, that beats the config file, that beats the default. `flags` has
// the flags that were given, by name without dashes, with their values; "config" (or PENG_CONFIG) names the file.
// Unknown PENG_ variables are logged as warnings.
// `defaults` is where a command's own defaults differ.
ServeOptions ResolveServeOptions(const std::map<std::string, std::vector<std::string>>& flags,
                                 const Settings& environment, ServeOptions defaults = {});

// Where models are cached: $PENG_HOME, else ~/.cache/peng.
std::string PengHome(const Settings& environment);

}  // namespace peng::base
