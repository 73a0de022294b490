// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>

#include "base/ascii.h"
#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options_yaml.h"
#include "base/vllm_flags.h"

extern char** environ;

namespace peng::base {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr std::string_view kEnvPrefix = "PENG_";
// Variables that are not settings of the table: the cache folder and the config file itself.
constexpr std::string_view kOtherVariables[] = {"PENG_HOME", "PENG_CONFIG"};
// vLLM's name for one API key; PENG_API_KEY beats it.
constexpr std::string_view kVllmKey = "VLLM_API_KEY";
constexpr double kMaxTokens = 1 << 30;
constexpr double kMaxBytes = 0x1p60;

using O = ServeOptions;
constexpr auto kPlain = OptionSpec::Kind::kPlain;
constexpr auto kSize = OptionSpec::Kind::kSize;
constexpr auto kSecret = OptionSpec::Kind::kSecret;
constexpr auto kWords = OptionSpec::Kind::kWords;

const OptionSpec kTable[] = {
    {"model", &O::model, "MODEL", "model folder, .gguf or .safetensors file, or hub name",
     OptionSpec::Kind::kPositional},
    {"revision", &O::revision, "NAME", "branch, tag or commit of a model that is named by its hub name"},
    {"hub", &O::hub, "huggingface|modelscope", "where a model that is in no cache is pulled from"},
    {"offline", &O::offline, "", "never use the network: a model that is in no cache is an error"},
    {"served-model-name", &O::served_model_name, "NAME", "names that clients use; the first is the one reported"},
    {"host", &O::host, "ADDRESS", "address to listen on; 127.0.0.1, or with an API key every interface"},
    {"port", &O::port, "N", "port to listen on; 0 takes a free one", kPlain, 0, 65535},
    {"api-key", &O::api_key, "KEY", "keys that clients must send as bearer token; better set in the environment",
     kSecret},
    {"api-key-file", &O::api_key_file, "FILE",
     "file of keys, one NAME:KEY or NAME:sha256:DIGEST a line; SIGHUP reads it again"},
    {"admin-key", &O::admin_key, "KEY", "key of the administrative endpoints; without it they do not exist", kSecret},
    {"key-requests-per-minute", &O::key_requests_per_minute, "N", "requests that each key may make; 0 is no limit",
     kSize, 0, kMaxTokens},
    {"key-tokens-per-minute", &O::key_tokens_per_minute, "N", "prompt and reply tokens of each key; 0 is no limit",
     kSize, 0, kMaxBytes},
    {"key-max-concurrency", &O::key_max_concurrency, "N", "requests of each key at once; 0 is no limit", kSize, 0,
     kMaxTokens},
    {"metrics-port", &O::metrics_port, "N", "port that serves /metrics without a key; -1 is none, 0 takes a free one",
     kPlain, -1, 65535},
    {"uds", &O::uds, "PATH", "Unix socket to listen on in place of host and port; only the same user may connect"},
    {"ssl-certfile", &O::ssl_certfile, "FILE", "PEM certificate, with its chain: serves HTTPS"},
    {"ssl-keyfile", &O::ssl_keyfile, "FILE", "PEM key of the certificate, if it is not in the same file"},
    {"ssl-ca-certs", &O::ssl_ca_certs, "FILE", "PEM certificates that client certificates are checked against"},
    {"ssl-cert-reqs", &O::ssl_cert_reqs, "N", "client certificates: 0 not asked for, 1 checked if sent, 2 required",
     kPlain, 0, 2},
    {"ssl-ciphers", &O::ssl_ciphers, "LIST", "ciphers for TLS 1.2, as `openssl ciphers` names them"},
    {"enable-ssl-refresh", &O::enable_ssl_refresh, "", "read the TLS files again when they change; SIGHUP always does"},
    {"root-path", &O::root_path, "PATH", "what a proxy puts in front of every path"},
    {"allowed-origins", &O::allowed_origins, "ORIGIN", "origins whose pages may use the server; * is any", kWords},
    {"allowed-methods", &O::allowed_methods, "METHOD", "methods that such pages may use", kWords},
    {"allowed-headers", &O::allowed_headers, "NAME", "headers that such pages may send", kWords},
    {"allow-credentials", &O::allow_credentials, "", "let such pages send cookies and client certificates"},
    {"h11-max-incomplete-event-size", &O::h11_max_incomplete_event_size, "BYTES", "largest header of a request", kSize,
     1024, 16 << 20},
    {"h11-max-header-count", &O::h11_max_header_count, "N", "most header fields of a request", kPlain, 8, 10000},
    {"max-body-bytes", &O::max_body_bytes, "BYTES", "largest body of a request", kSize, 1024, 1 << 30},
    {"timeout-keep-alive", &O::timeout_keep_alive, "SECONDS", "how long a connection may wait for its next request",
     kPlain, 1, 86400},
    {"sse-keep-alive-interval", &O::sse_keep_alive_interval, "SECONDS",
     "a comment keeps event streams open that are silent for so long; 0 is never", kPlain, 0, 86400},
    {"dtype", &O::dtype, "auto|float32", "arithmetic: auto is the fastest for the weights' format"},
    {"max-model-len", &O::max_model_len, "N", "context in tokens; 0 or -1 is the model's, or what fits in memory",
     kSize, -1, kMaxTokens},
    {"max-num-seqs", &O::max_num_seqs, "N", "requests that run at once", kPlain, 1, 65536},
    {"max-num-batched-tokens", &O::max_num_batched_tokens, "N", "tokens that one step computes", kSize, 1, kMaxTokens},
    {"scheduling-policy", &O::scheduling_policy, "fcfs|priority",
     "who is served first: by arrival, or by the request's field priority (lower first), then by arrival"},
    {"long-prefill-token-threshold", &O::long_prefill_token_threshold, "N",
     "longer prompts get at most so many tokens of a step; 0 is half a step while other prompts could use the rest",
     kSize, 0, kMaxTokens},
    {"max-num-partial-prefills", &O::max_num_partial_prefills, "N",
     "prompts that are computed over several steps at the same time", kPlain, 1, 65536},
    {"max-long-partial-prefills", &O::max_long_partial_prefills, "N",
     "long prompts among these; shorter ones overtake those that wait", kPlain, 1, 65536},
    {"max-num-queued-reqs", &O::max_num_queued_reqs, "N",
     "requests that may wait to run, more get 503 with Retry-After; 0 is no limit", kSize, 0, kMaxTokens},
    {"max-num-queued-tokens", &O::max_num_queued_tokens, "N",
     "prompt tokens that may wait to run, more get 503 with Retry-After; 0 is no limit", kSize, 0, kMaxTokens},
    {"block-size", &O::block_size, "N", "tokens per KV cache block; 0 is the backend's", kPlain, 0, 65536},
    {"kv-cache-dtype", &O::kv_cache_dtype, "auto|bfloat16|float16|float32", "element type of the KV cache"},
    {"kv-cache-memory-bytes", &O::kv_cache_memory_bytes, "BYTES", "memory of the KV cache; 0 follows what is free",
     kSize, 0, kMaxBytes},
    {"gpu-memory-utilization", &O::gpu_memory_utilization, "SHARE", "share of the device's memory that may be used",
     kPlain, 0.01, 1},
    {"enable-prefix-caching", &O::enable_prefix_caching, "", "reuse the KV blocks of equal prompt beginnings"},
    {"batch-invariant", &O::batch_invariant, "default|strict",
     "strict reuses only blocks that a fresh run computes bit for bit"},
    {"cpu-threads", &O::cpu_threads, "N", "compute threads; 0 is one per physical core within the process's limits",
     kPlain, 0, 4096},
    {"max-isa", &O::max_isa, "NAME", "newest instruction set to use, e.g. portable, avx2, avx512vnni"},
    {"chat-template", &O::chat_template, "FILE", "Jinja template (file or text) in place of the model's"},
    {"generation-config", &O::generation_config, "auto|vllm",
     "defaults of sampling: auto takes the model's generation_config.json, vllm the neutral ones"},
    {"max-logprobs", &O::max_logprobs, "N",
     "most log probabilities per token that a request may ask for; -1 is no limit", kSize, -1, kMaxTokens},
    {"seed", &O::seed, "N", "seed of requests that bring none", kPlain, -0x1p62, 0x1p62},
    {"drain-timeout", &O::drain_timeout, "SECONDS", "time for running requests to end after SIGTERM", kPlain, 0, 86400},
    {"log-level", &O::log_level, "debug|info|warning|error", "least severe messages that are written"},
    {"log-format", &O::log_format, "text|json", "form of log lines"},
    {"enable-log-requests", &O::enable_log_requests, "", "log a line for each request when it ends"},
    {"slow-request-ms", &O::slow_request_ms, "N", "log requests that take longer; 0 logs none", kSize, 0, kMaxTokens},
    {"log-prompts", &O::log_prompts, "", "log prompts and replies, and allow core dumps, which hold them too"},
    {"audit-log", &O::audit_log, "FILE",
     "append a JSON line for each request: who, when, what model, how much; no content"},
    {"isolate-prefix-cache", &O::isolate_prefix_cache, "", "keep the cached prefixes of each key apart"},
    {"strict-params", &O::strict_params, "", "refuse unknown fields of requests instead of warning in the reply"},
    {"enable-prompt-tokens-details", &O::enable_prompt_tokens_details, "",
     "tell the cached tokens in the usage of replies"},
    {"enable-force-include-usage", &O::enable_force_include_usage, "", "send the usage in streams without being asked"},
};

// Settings that have an effect beyond `peng serve`.
constexpr std::string_view kLoading[] = {"model",      "revision",       "hub",         "offline", "dtype",
                                         "block-size", "kv-cache-dtype", "cpu-threads", "max-isa", "log-level",
                                         "log-format"};
constexpr std::string_view kGenerating[] = {"max-model-len",         "max-num-seqs",           "max-num-batched-tokens",
                                            "kv-cache-memory-bytes", "gpu-memory-utilization", "generation-config"};
constexpr std::string_view kConversing[] = {"chat-template", "enable-prefix-caching", "batch-invariant"};

std::string Dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

// Edit distance with swaps of neighbours.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

[[noreturn]] void Refuse(std::string_view where, const std::string& value, const std::string& what,
                         const std::string& action) {
  throw Error(ErrorKind::kUsage, where, "\"" + Printable(value, 80) + "\" " + what, action);
}

std::string PlainNumber(double v) {
  char buffer[64];
  const auto format = std::fabs(v) < 1e15 ? std::chars_format::fixed : std::chars_format::scientific;
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), v, format).ptr);
}

// A bound as one would write it: sizes that are a power of 1024 with its suffix.
std::string BoundText(const OptionSpec& spec, double v) {
  std::string suffix;
  for (const char unit : std::string_view("KMGT")) {
    if (spec.kind != kSize || v < 1024 || std::fmod(v, 1024) != 0) break;
    v /= 1024;
    suffix = unit;
  }
  return PlainNumber(v) + suffix;
}

std::string BoundsText(const OptionSpec& spec) {
  return "use " + BoundText(spec, spec.min) + " to " + BoundText(spec, spec.max);
}

void CheckBounds(const OptionSpec& spec, double v, const std::string& text, std::string_view where) {
  if (spec.min == spec.max || (v >= spec.min && v <= spec.max)) return;
  Refuse(where, text, "is out of range", BoundsText(spec));
}

template <typename T>
bool ParseWhole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// The factor of the suffix, taken off `text`; 1 without one.
double TakeSizeSuffix(std::string_view* text) {
  for (const std::string_view unit : {"iB", "i"}) {
    const size_t n = unit.size();
    if (text->size() > n + 1 && text->substr(text->size() - n) == unit && std::isupper((*text)[text->size() - n - 1])) {
      text->remove_suffix(n);
      break;
    }
  }
  if (text->empty()) return 1;
  const size_t power = std::string_view("kmgt").find(static_cast<char>(std::tolower(text->back())));
  if (power == std::string_view::npos) return 1;
  const double base = std::isupper(text->back()) ? 1024 : 1000;
  text->remove_suffix(1);
  return std::pow(base, static_cast<double>(power + 1));
}

int64_t ParseSize(const OptionSpec& spec, const std::string& text, std::string_view where) {
  std::string_view digits = text;
  const double factor = TakeSizeSuffix(&digits);
  double number = 0;
  const bool whole = digits.find_first_not_of("0123456789.-") == std::string_view::npos && ParseWhole(digits, &number);
  const double value = std::round(number * factor);
  if (!whole || (factor == 1 && value != number)) {
    Refuse(where, text, "is no size", "use a whole number, or a number with k, m, g, t (1000s) or K, M, G, T (1024s)");
  }
  CheckBounds(spec, value, text, where);
  return static_cast<int64_t>(value);
}

int64_t ParseInt(const OptionSpec& spec, const std::string& text, std::string_view where) {
  if (spec.kind == kSize) return ParseSize(spec, text, where);
  int64_t value = 0;
  if (!ParseWhole(text, &value)) Refuse(where, text, "is no integer", BoundsText(spec));
  CheckBounds(spec, static_cast<double>(value), text, where);
  return value;
}

double ParseDouble(const OptionSpec& spec, const std::string& text, std::string_view where) {
  double value = 0;
  if (!ParseWhole(text, &value) || !std::isfinite(value)) Refuse(where, text, "is no number", BoundsText(spec));
  CheckBounds(spec, value, text, where);
  return value;
}

bool ParseBool(const std::string& text, std::string_view where) {
  const std::string lower = AsciiLower(text);
  for (const char* yes : {"true", "1", "yes", "on"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"false", "0", "no", "off"}) {
    if (lower == no) return false;
  }
  Refuse(where, text, "is neither true nor false", "use true or false");
}

std::string ParseString(const OptionSpec& spec, const std::string& text, std::string_view where) {
  const std::vector<std::string> choices = spec.choices();
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "use " : ", ") + choice;
  Refuse(where, text, "is not supported", list);
}

// Lists come from the environment as one text; names and keys have no commas.
std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

std::string Suggestion(std::string_view name, const std::string& nearest) {
  if (const std::string_view reason = ReasonAgainst(name); !reason.empty()) return std::string(reason);
  return nearest.empty() ? "see peng serve --help" : "did you mean " + nearest + "?";
}

std::vector<std::string> JsonTexts(const Json& value, const std::string& where) {
  const auto text = [&](const Json& v) {
    if (v.is_string()) return v.as_string();
    if (v.is_bool() || v.is_number()) return v.Dump();
    throw Error(ErrorKind::kUsage, where, std::string("must be a plain value or a list of them, not ") + v.type_name());
  };
  if (!value.is_array()) return {text(value)};
  std::vector<std::string> texts;
  for (const Json& item : value.as_array()) texts.push_back(text(item));
  return texts;
}

// The files of models are JSON too, and one of them is called config.json.
std::string KeySuggestion(const std::string& key) {
  if (key == "architectures" || key == "model_type" || key == "hidden_size" || key == "_name_or_path") {
    return "this is the configuration of a model: name its folder as MODEL";
  }
  return Suggestion(key, NearestOption(key));
}

void CheckKey(const std::string& key, const std::string& where) {
  if (FindOption(key) != nullptr) return;
  throw Error(ErrorKind::kUsage, where, "\"" + Printable(key, 80) + "\" is no option", KeySuggestion(key));
}

ConfigEntries ParseJsonConfig(const std::string& text, const std::string& where) {
  const auto result = ParseJson(text, {.refuse_duplicate_keys = true});
  if (const auto* error = std::get_if<JsonError>(&result)) {
    throw Error(ErrorKind::kUsage, where,
                "not valid JSON: " + error->message + " at byte " + std::to_string(error->offset));
  }
  const Json& root = std::get<Json>(result);
  if (!root.is_object()) throw Error(ErrorKind::kUsage, where, "must be an object of option names and values");
  ConfigEntries entries;
  for (const auto& [key, value] : root.as_object()) {
    CheckKey(key, where);
    entries.emplace_back(key, JsonTexts(value, where + ": " + Printable(key)));
  }
  return entries;
}

// '["a", "b"]' -> a, b; other texts as they are.
std::vector<std::string> WordsOf(std::span<const std::string> values, std::string_view where) {
  if (values.size() == 1 && values[0].starts_with('[')) {
    const auto parsed = ParseJson(values[0]);
    const auto* list = std::get_if<Json>(&parsed);
    if (list == nullptr || !list->is_array()) {
      Refuse(where, values[0], "is no JSON list", "use '[\"a\", \"b\"]', or a b");
    }
    return JsonTexts(*list, std::string(where));
  }
  return {values.begin(), values.end()};
}

const std::string* FindVariable(const Settings& environment, std::string_view name) {
  for (const auto& [key, value] : environment) {
    if (key == name) return &value;
  }
  return nullptr;
}

// Kubernetes sets PENG_PORT=tcp://10.0.0.1:8000 in every container beside a service called "peng".
bool IsServiceAddress(const OptionSpec& spec, std::string_view value) {
  return std::string_view(spec.name) == "port" && value.find("://") != std::string_view::npos;
}

// What else Kubernetes sets beside PENG_PORT=tcp://…: PENG_SERVICE_HOST, PENG_SERVICE_PORT_HTTP,
// PENG_PORT_8000_TCP_ADDR…
bool IsServiceVariable(std::string_view name) {
  return name.starts_with("PENG_SERVICE_HOST") || name.starts_with("PENG_SERVICE_PORT") ||
         name.starts_with("PENG_PORT_");
}

void ApplyEnvironment(const Settings& environment, ServeOptions* options) {
  const std::string* vllm_key = FindVariable(environment, kVllmKey);
  if (vllm_key != nullptr && !vllm_key->empty()) options->api_key = {*vllm_key};
  for (const OptionSpec& spec : kTable) {
    const std::string* value = FindVariable(environment, spec.env());
    // An empty variable is how compose files and systemd units write "not set".
    if (value == nullptr || value->empty()) continue;
    if (IsServiceAddress(spec, *value)) {
      LogWarning(
          "PENG_PORT is ignored: \"{}\" is the address of a Kubernetes service, no port; give a port with --port",
          Printable(*value, 80));
      continue;
    }
    const bool json = spec.kind == kWords && value->starts_with('[');
    const bool split = spec.is_list() && !json;
    const std::vector<std::string> values = split ? SplitAtCommas(*value) : std::vector<std::string>{*value};
    SetOption(spec, values, spec.env(), options);
  }
}

void CheckReadable(const std::string& path, std::string_view where) {
  if (::access(path.c_str(), R_OK) == 0) return;
  Refuse(where, path, std::string("cannot be read: ") + std::strerror(errno), "name a YAML or JSON file of settings");
}

}  // namespace

std::vector<std::string> OptionSpec::choices() const {
  std::vector<std::string> out;
  const std::string_view list = metavar;
  if (list.find('|') == std::string_view::npos) return out;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find('|', begin), list.size());
    out.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string OptionSpec::env() const {
  std::string out(kEnvPrefix);
  for (const char* c = name; *c != '\0'; ++c) {
    out.push_back(*c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(*c))));
  }
  return out;
}

std::string OptionSpec::default_text() const {
  const ServeOptions defaults;
  struct {
    const ServeOptions& o;
    std::string operator()(std::string O::* f) const { return o.*f; }
    std::string operator()(std::vector<std::string> O::* f) const {
      std::string words;
      for (const std::string& word : o.*f) words += (words.empty() ? "" : " ") + word;
      return words;
    }
    std::string operator()(int64_t O::* f) const { return std::to_string(o.*f); }
    std::string operator()(double O::* f) const { return PlainNumber(o.*f); }
    std::string operator()(bool O::* f) const { return o.*f ? "true" : "false"; }
  } const text{defaults};
  return std::visit(text, field);
}

Json SettingsJson(const ServeOptions& options) {
  struct {
    const ServeOptions& o;
    Json operator()(std::string O::* f) const { return o.*f; }
    Json operator()(std::vector<std::string> O::* f) const { return Json::Array((o.*f).begin(), (o.*f).end()); }
    Json operator()(int64_t O::* f) const { return o.*f; }
    Json operator()(double O::* f) const { return o.*f; }
    Json operator()(bool O::* f) const { return o.*f; }
  } const value{options};
  Json::Object settings;
  for (const OptionSpec& spec : kTable) {
    Json shown = std::visit(value, spec.field);
    if (spec.kind == kSecret) shown = shown != Json("") && shown != Json(Json::Array());
    settings.emplace_back(spec.name, std::move(shown));
  }
  return settings;
}

std::span<const OptionSpec> ServeOptionTable() { return kTable; }

const OptionSpec* FindOption(std::string_view name) {
  const std::string dashed = Dashed(name);
  for (const OptionSpec& spec : kTable) {
    if (dashed == spec.name) return &spec;
  }
  return nullptr;
}

OptionUse OptionSpec::use() const {
  const auto among = [this](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (among(kLoading)) return OptionUse::kLoading;
  if (among(kGenerating)) return OptionUse::kGenerating;
  return among(kConversing) ? OptionUse::kConversing : OptionUse::kServing;
}

std::string Nearest(std::string_view name, std::span<const std::string_view> names) {
  // A longer text is no misspelt name, and the distance takes time in its length.
  constexpr size_t kLongest = 64;
  if (name.size() > kLongest) return "";
  const std::string dashed = Dashed(name);
  size_t best = std::max<size_t>(2, dashed.size() / 3) + 1;
  std::string nearest;
  for (const std::string_view candidate : names) {
    const size_t distance = Distance(dashed, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string NearestOption(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OptionSpec& spec : kTable) names.emplace_back(spec.name);
  return Nearest(name, names);
}

void SetOption(const OptionSpec& spec, std::span<const std::string> values, std::string_view where,
               ServeOptions* options) {
  if (const auto* list = std::get_if<std::vector<std::string> O::*>(&spec.field)) {
    options->*(*list) =
        spec.kind == kWords ? WordsOf(values, where) : std::vector<std::string>(values.begin(), values.end());
    return;
  }
  if (values.size() != 1) {
    throw Error(ErrorKind::kUsage, where, values.empty() ? "needs a value" : "takes one value, not a list");
  }
  const std::string& text = values[0];
  if (const auto* f = std::get_if<std::string O::*>(&spec.field)) options->*(*f) = ParseString(spec, text, where);
  if (const auto* f = std::get_if<int64_t O::*>(&spec.field)) options->*(*f) = ParseInt(spec, text, where);
  if (const auto* f = std::get_if<double O::*>(&spec.field)) options->*(*f) = ParseDouble(spec, text, where);
  if (const auto* f = std::get_if<bool O::*>(&spec.field)) options->*(*f) = ParseBool(text, where);
}

Settings PengEnvironment() {
  Settings variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name != "HOME" && name != kVllmKey && name.substr(0, kEnvPrefix.size()) != kEnvPrefix) continue;
    variables.emplace_back(name, text.substr(equals + 1));
  }
  return variables;
}

std::vector<std::string> UnknownVariables(const Settings& environment) {
  std::set<std::string> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const OptionSpec& spec : kTable) known.insert(spec.env());
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) {
    if (name.substr(0, kEnvPrefix.size()) != kEnvPrefix || known.count(name) != 0) continue;
    if (IsServiceVariable(name)) continue;
    const std::string nearest = NearestOption(AsciiLower(name.substr(kEnvPrefix.size())));
    lines.push_back("environment variable " + Printable(name) + " is not known and ignored; " +
                    Suggestion("", nearest.empty() ? "" : FindOption(nearest)->env()));
  }
  return lines;
}

void LoadConfigFile(const std::string& path, ServeOptions* options) {
  const std::string text = ReadFile(path, kMaxConfigBytes, ErrorKind::kUsage);
  const std::string where = Printable(path, 4096);
  const bool json = path.size() >= 5 && path.substr(path.size() - 5) == ".json";
  std::set<std::string> seen;
  for (const auto& [key, values] : json ? ParseJsonConfig(text, where) : ParseYamlConfig(text, where, CheckKey)) {
    const OptionSpec* spec = FindOption(key);
    PENG_CHECK(spec != nullptr);
    if (!seen.insert(spec->name).second) {
      throw Error(ErrorKind::kUsage, where, std::string("\"") + spec->name + "\" is given twice", "keep one of them");
    }
    SetOption(*spec, values, where + ": " + spec->name, options);
  }
}

ServeOptions ResolveServeOptions(const std::map<std::string, std::vector<std::string>>& flags,
                                 const Settings& environment, ServeOptions defaults) {
  ServeOptions options = std::move(defaults);
  const std::string* variable = FindVariable(environment, "PENG_CONFIG");
  std::string config = variable == nullptr ? "" : *variable;
  const auto flag = flags.find("config");
  const bool by_flag = flag != flags.end() && !flag->second.empty();
  if (by_flag) config = flag->second[0];
  if (by_flag || !config.empty()) {
    CheckReadable(config, by_flag ? "--config" : "PENG_CONFIG");
    LoadConfigFile(config, &options);
  }
  ApplyEnvironment(environment, &options);
  for (const auto& [name, values] : flags) {
    if (name == "config") continue;
    const OptionSpec* spec = FindOption(name);
    if (spec == nullptr) {
      throw Error(ErrorKind::kUsage, "--" + Printable(name, 80), "is no option", Suggestion(name, NearestOption(name)));
    }
    SetOption(*spec, values, spec->flag(), &options);
  }
  for (const std::string& line : UnknownVariables(environment)) LogWarning("{}", line);
  return options;
}

std::string PengHome(const Settings& environment) {
  if (const std::string* home = FindVariable(environment, "PENG_HOME"); home != nullptr && !home->empty()) return *home;
  if (const std::string* home = FindVariable(environment, "HOME"); home != nullptr && !home->empty()) {
    return *home + "/.cache/peng";
  }
  throw Error(ErrorKind::kUsage, "PENG_HOME", "neither PENG_HOME nor HOME is set",
              "set PENG_HOME to a folder for models");
}

}  // namespace peng::base
