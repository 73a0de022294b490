// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <vector>

namespace peng::server {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kFirstToken{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kInterToken{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Buckets kRequest{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kChoices{1, 2, 5, 10, 20};
const Buckets kPreemptions{1, 2, 3, 4, 5, 10, 20};
const Buckets kIterationTokens(engine::kIterationTokenBounds.begin(), engine::kIterationTokenBounds.end());
const Buckets kHttp{.01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 10, 30, 60};

// 1, 2, 5, 10, 20, 50 ... up to the model's context.
Buckets TokenBuckets(int64_t max_value) {
  Buckets buckets;
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t step : {1, 2, 5}) {
      if (step * power > max_value) return buckets;
      buckets.push_back(static_cast<double>(step * power));
    }
  }
}

// "2xx": a label per exact status would be chosen by whoever sends bad requests.
std::string StatusClass(int status) { return std::to_string(status / 100) + "xx"; }

}  // namespace

struct Metrics::Impl {
  Impl(const std::string& model_name, int64_t max_model_len)
      : labels{{"model_name", model_name}, {"engine", "0"}},
        running(Gauge("vllm:num_requests_running", "Requests in model execution batches.")),
        waiting(Gauge("vllm:num_requests_waiting", "Requests waiting to be processed.")),
        kv_usage(Gauge("vllm:kv_cache_usage_perc", "KV cache usage; 1 means 100 percent.")),
        prefix_queries(Counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in tokens.")),
        prefix_hits(Counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in tokens.")),
        preemptions(Counter("vllm:num_preemptions_total", "Preemptions.")),
        prompt_tokens(Counter("vllm:prompt_tokens_total", "Prompt tokens processed.")),
        generation_tokens(Counter("vllm:generation_tokens_total", "Tokens generated.")),
        cached_tokens(Counter("vllm:prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache.")),
        computed_here(BySource("local_compute")),
        cached_here(BySource("local_cache_hit")),
        from_elsewhere(BySource("external_kv_transfer")),
        waiting_for_room(WaitingBecause("capacity")),
        deferred(WaitingBecause("deferred")),
        fragmentation(Gauge("vllm_memory_fragmentation",
                            "Share of the positions in KV blocks of running requests that hold no token, 0 to 1.")),
        step_p99(Gauge("vllm_batch_latency_p99", "99th percentile of the last 1024 steps' durations, in seconds.")),
        npu_utilization(Gauge("vllm_npu_utilization", "NPU utilization, 0 to 1; 0 where no NPU computes.")),
        iteration_tokens(Histogram("vllm:iteration_tokens_total", "Tokens computed per step.", kIterationTokens)),
        first_token(Histogram("vllm:time_to_first_token_seconds", "Time to first token.", kFirstToken)),
        inter_token(Histogram("vllm:inter_token_latency_seconds", "Time between tokens.", kInterToken)),
        per_token(Histogram("vllm:request_time_per_output_token_seconds",
                            "Mean time per output token of a request, without the first.", kInterToken)),
        e2e(Histogram("vllm:e2e_request_latency_seconds", "End to end latency.", kRequest)),
        queue(Histogram("vllm:request_queue_time_seconds", "Time in the waiting queue.", kRequest)),
        inference(Histogram("vllm:request_inference_time_seconds", "Time running.", kRequest)),
        prefill(Histogram("vllm:request_prefill_time_seconds", "Time in prefill.", kRequest)),
        decode(Histogram("vllm:request_decode_time_seconds", "Time in decode.", kRequest)),
        request_prompt(
            Histogram("vllm:request_prompt_tokens", "Prompt tokens per request.", TokenBuckets(max_model_len))),
        request_generated(
            Histogram("vllm:request_generation_tokens", "Tokens generated per request.", TokenBuckets(max_model_len))),
        request_longest(Histogram("vllm:request_max_num_generation_tokens", "Tokens of the longest reply to a prompt.",
                                  TokenBuckets(max_model_len))),
        request_computed(Histogram("vllm:request_prefill_kv_computed_tokens",
                                   "Prompt tokens that were computed, not taken from a cache.",
                                   TokenBuckets(max_model_len))),
        request_preemptions(Histogram("vllm:request_num_preemptions", "Preemptions of a request.", kPreemptions)),
        request_max_tokens(
            Histogram("vllm:request_params_max_tokens", "The max_tokens parameter.", TokenBuckets(max_model_len))),
        request_n(Histogram("vllm:request_params_n", "The n parameter.", kChoices)),
        queue_full_reqs(AdmissionRejections("max_num_queued_reqs")),
        queue_full_tokens(AdmissionRejections("max_num_queued_tokens")),
        success(prometheus::BuildCounter()
                    .Name("vllm:request_success_total")
                    .Help("Finished requests by reason.")
                    .Register(registry)),
        http_requests(prometheus::BuildCounter()
                          .Name("http_requests_total")
                          .Help("Requests by method, status and handler.")
                          .Register(registry)),
        http_duration(prometheus::BuildHistogram()
                          .Name("http_request_duration_seconds")
                          .Help("Time until the reply starts, by method and handler.")
                          .Register(registry)) {
    for (const char* reason : {"stop", "length", "abort", "error", "repetition"}) Success(reason);
  }

  prometheus::Gauge& Gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter& Counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Histogram& Histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
  }
  prometheus::Counter& AdmissionRejections(const char* reason) {
    return prometheus::BuildCounter()
        .Name("vllm:admission_rejections_total")
        .Help("Requests that a queue limit turned away.")
        .Register(registry)
        .Add({{"model_name", labels.at("model_name")}, {"reason", reason}});
  }
  // A series of a family with one label more; the family is made once.
  prometheus::Labels With(const char* label, std::string_view value) const {
    prometheus::Labels more = labels;
    more.emplace(label, value);
    return more;
  }
  prometheus::Counter& BySource(const char* source) {
    return prometheus::BuildCounter()
        .Name("vllm:prompt_tokens_by_source_total")
        .Help("Prompt tokens by where their KV comes from.")
        .Register(registry)
        .Add(With("source", source));
  }
  prometheus::Gauge& WaitingBecause(const char* reason) {
    return prometheus::BuildGauge()
        .Name("vllm:num_requests_waiting_by_reason")
        .Help("Requests waiting to be processed, by reason.")
        .Register(registry)
        .Add(With("reason", reason));
  }
  // Known once the engine is there; vLLM's names of the labels.
  void TellCacheConfig(const engine::EngineStats& stats) {
    if (stats.kv_block_size == 0) return;
    prometheus::Labels config{{"engine", "0"},
                              {"block_size", std::to_string(stats.kv_block_size)},
                              {"num_gpu_blocks", std::to_string(stats.kv_total_tokens / stats.kv_block_size)},
                              {"enable_prefix_caching", stats.prefix_caching ? "True" : "False"}};
    prometheus::BuildGauge()
        .Name("vllm:cache_config_info")
        .Help("Settings of the KV cache; always 1.")
        .Register(registry)
        .Add(config)
        .Set(1);
  }
  void RaiseIterationTokens(const engine::IterationTokens& totals) {
    std::vector<double> more;
    for (size_t i = 0; i < totals.buckets.size(); ++i) {
      more.push_back(static_cast<double>(totals.buckets[i] - told_iterations.buckets[i]));
    }
    iteration_tokens.ObserveMultiple(more, static_cast<double>(totals.sum - told_iterations.sum));
    told_iterations = totals;
  }
  prometheus::Counter& Success(std::string_view reason) { return success.Add(With("finished_reason", reason)); }

  prometheus::Registry registry;
  const prometheus::Labels labels;
  prometheus::Gauge& running;
  prometheus::Gauge& waiting;
  prometheus::Gauge& kv_usage;
  prometheus::Counter& prefix_queries;
  prometheus::Counter& prefix_hits;
  prometheus::Counter& preemptions;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& generation_tokens;
  prometheus::Counter& cached_tokens;
  prometheus::Counter& computed_here;
  prometheus::Counter& cached_here;
  prometheus::Counter& from_elsewhere;
  prometheus::Gauge& waiting_for_room;
  prometheus::Gauge& deferred;
  prometheus::Gauge& fragmentation;
  prometheus::Gauge& step_p99;
  prometheus::Gauge& npu_utilization;
  prometheus::Histogram& iteration_tokens;
  prometheus::Histogram& first_token;
  prometheus::Histogram& inter_token;
  prometheus::Histogram& per_token;
  prometheus::Histogram& e2e;
  prometheus::Histogram& queue;
  prometheus::Histogram& inference;
  prometheus::Histogram& prefill;
  prometheus::Histogram& decode;
  prometheus::Histogram& request_prompt;
  prometheus::Histogram& request_generated;
  prometheus::Histogram& request_longest;
  prometheus::Histogram& request_computed;
  prometheus::Histogram& request_preemptions;
  prometheus::Histogram& request_max_tokens;
  prometheus::Histogram& request_n;
  prometheus::Counter& queue_full_reqs;
  prometheus::Counter& queue_full_tokens;
  prometheus::Family<prometheus::Counter>& success;
  prometheus::Family<prometheus::Counter>& http_requests;
  prometheus::Family<prometheus::Histogram>& http_duration;
  std::mutex expose_mutex;
  engine::IterationTokens told_iterations;
};

Metrics::Metrics(const std::string& model_name, int64_t max_model_len)
    : impl_(std::make_unique<Impl>(model_name, max_model_len)) {}
Metrics::~Metrics() = default;

void Metrics::ObserveFirstToken(double seconds) { impl_->first_token.Observe(seconds); }
void Metrics::ObserveInterToken(double seconds) { impl_->inter_token.Observe(seconds); }

void Metrics::ObserveFinished(const FinishedChoice& c) {
  impl_->Success(c.reason).Increment();
  impl_->e2e.Observe(c.e2e);
  if (c.queue) impl_->queue.Observe(*c.queue);
  if (c.inference) impl_->inference.Observe(*c.inference);
  if (c.prefill) impl_->prefill.Observe(*c.prefill);
  if (c.decode) impl_->decode.Observe(*c.decode);
  if (c.decode && c.generated_tokens > 1) {
    impl_->per_token.Observe(*c.decode / static_cast<double>(c.generated_tokens - 1));
  }
  impl_->request_prompt.Observe(static_cast<double>(c.prompt_tokens));
  impl_->request_computed.Observe(static_cast<double>(c.prompt_tokens - c.cached_tokens));
  impl_->request_preemptions.Observe(static_cast<double>(c.preemptions));
  impl_->request_generated.Observe(static_cast<double>(c.generated_tokens));
  impl_->request_max_tokens.Observe(static_cast<double>(c.max_tokens));
  impl_->request_n.Observe(static_cast<double>(c.n));
}

void Metrics::ObserveLongestReply(int64_t generated_tokens) {
  impl_->request_longest.Observe(static_cast<double>(generated_tokens));
}

void Metrics::ObserveHttp(std::string_view method, std::string_view handler, int status, double seconds) {
  const prometheus::Labels labels{{"method", std::string(method)}, {"handler", std::string(handler)}};
  prometheus::Labels with_status = labels;
  with_status.emplace("status", StatusClass(status));
  impl_->http_requests.Add(with_status).Increment();
  impl_->http_duration.Add(labels, kHttp).Observe(seconds);
}

std::string Metrics::Expose(const engine::EngineStats& stats) {
  std::lock_guard lock(impl_->expose_mutex);  // the totals below move by differences
  const auto raise = [](prometheus::Counter& counter, uint64_t total) {
    const double ahead = static_cast<double>(total) - counter.Value();
    if (ahead > 0) counter.Increment(ahead);
  };
  impl_->running.Set(stats.scheduler.running);
  impl_->waiting.Set(stats.scheduler.waiting);
  impl_->kv_usage.Set(stats.scheduler.kv_usage);
  raise(impl_->prefix_queries, stats.scheduler.prefix_queries);
  raise(impl_->prefix_hits, stats.scheduler.prefix_hits);
  raise(impl_->preemptions, stats.scheduler.preemptions);
  raise(impl_->queue_full_reqs, stats.refused_queue_reqs);
  raise(impl_->queue_full_tokens, stats.refused_queue_tokens);
  raise(impl_->prompt_tokens, stats.prompt_tokens);
  raise(impl_->generation_tokens, stats.generation_tokens);
  raise(impl_->cached_tokens, stats.cached_prompt_tokens);
  raise(impl_->cached_here, stats.cached_prompt_tokens);
  raise(impl_->computed_here, stats.prompt_tokens - stats.cached_prompt_tokens);
  impl_->waiting_for_room.Set(stats.scheduler.waiting);
  impl_->fragmentation.Set(stats.scheduler.kv_fragmentation);
  impl_->step_p99.Set(stats.step_seconds_p99);
  impl_->RaiseIterationTokens(stats.iteration_tokens);
  impl_->TellCacheConfig(stats);
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace peng::server
