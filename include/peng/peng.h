// SPDX-License-Identifier: Apache-2.0
#pragma once

// peng as a C++ library: load a model, generate text. Link with libpeng; nothing else of peng is needed to compile.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace peng {

std::string_view Version();  // "0.1.0"

// One line: where, what, what to do. The codes are the exit codes of the command line: 1 run-time failure, 2 bad option
// or request, 3 model file refused, 4 device not usable.
class PengError : public std::runtime_error {
 public:
  PengError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

struct LoadOptions {
  std::string model;           // folder, .gguf, .safetensors, or the name of a model in the cache
  std::string dtype = "auto";  // "auto" or "float32", the reference path
  int32_t threads = 0;         // 0 = all that the process may use
  int32_t max_model_len = 0;   // positions of one sequence; 0 = what the model was made for
  int64_t kv_cache_bytes = 0;  // 0 = sized to the free memory
};

struct GenerateOptions {
  int32_t max_tokens = 0;             // 0 = up to the end of the context
  std::optional<double> temperature;  // unset = the model's own default; 0 = greedy
  std::optional<double> top_p;
  std::optional<int32_t> top_k;
  std::optional<double> min_p;
  std::optional<int64_t> seed;    // unset = random
  std::vector<std::string> stop;  // at most 4
};

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct Reply {
  std::string text;
  std::string finish_reason;  // "stop", "length", or "abort" if the callback ended it
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
};

// Called with each piece of text, in valid UTF-8, from one thread at a time. False ends the reply.
using OnText = std::function<bool(std::string_view text)>;

// A loaded model. Its methods may be called from several threads; their requests share the model's steps.
class Model {
 public:
  // Throws PengError.
  explicit Model(const LoadOptions& options);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Both wait for the end of the reply. Throw PengError.
  Reply Complete(const std::string& prompt, const GenerateOptions& options = {}, const OnText& on_text = {});
  Reply Chat(const std::vector<Message>& messages, const GenerateOptions& options = {}, const OnText& on_text = {});

  std::vector<int32_t> Tokenize(const std::string& text) const;
  std::string Detokenize(const std::vector<int32_t>& ids) const;
  int32_t max_model_len() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace peng
