// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

namespace peng::server {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kFirstToken{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kInterToken{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Buckets kRequest{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kChoices{1, 2, 5, 10, 20};
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
    for (const char* reason : {"stop", "length", "abort", "error"}) Success(reason);
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
  prometheus::Counter& Success(std::string_view reason) {
    prometheus::Labels with_reason = labels;
    with_reason.emplace("finished_reason", reason);
    return success.Add(with_reason);
  }

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
  prometheus::Histogram& request_max_tokens;
  prometheus::Histogram& request_n;
  prometheus::Counter& queue_full_reqs;
  prometheus::Counter& queue_full_tokens;
  prometheus::Family<prometheus::Counter>& success;
  prometheus::Family<prometheus::Counter>& http_requests;
  prometheus::Family<prometheus::Histogram>& http_duration;
  std::mutex expose_mutex;
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
  impl_->request_generated.Observe(static_cast<double>(c.generated_tokens));
  impl_->request_max_tokens.Observe(static_cast<double>(c.max_tokens));
  impl_->request_n.Observe(static_cast<double>(c.n));
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
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace peng::server
