// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/llm.h"

namespace peng::server {

// Figures of one finished choice. Times in seconds; unset ones did not happen.
struct FinishedChoice {
  std::string_view reason;  // "stop", "length", "abort", "error"
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t preemptions = 0;
  int64_t generated_tokens = 0;
  int64_t max_tokens = 0;
  int64_t n = 1;
  double e2e = 0;
  std::optional<double> queue, prefill, decode, inference;
};

// The server's figures under vLLM's names. Thread-safe.
class Metrics {
 public:
  Metrics(const std::string& model_name, int64_t max_model_len);
  ~Metrics();

  void ObserveFirstToken(double seconds);
  void ObserveInterToken(double seconds);
  void ObserveFinished(const FinishedChoice& choice);
  // The longest of the replies to one prompt.
  void ObserveLongestReply(int64_t generated_tokens);
  void ObserveHttp(std::string_view method, std::string_view handler, int status, double seconds);

  // The Prometheus text format, with the engine's figures of now.
  std::string Expose(const engine::EngineStats& stats);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace peng::server
