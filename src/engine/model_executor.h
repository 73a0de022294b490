// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"
#include "engine/batch_builder.h"
#include "engine/executor.h"
#include "engine/request_state.h"
#include "engine/sampler.h"
#include "models/model.h"

namespace peng::engine {

// Bytes of scratch that the largest step of `model` needs: `max_rows` rows, of which `max_logit_rows` want logits. A
// dry run: the model's weights need not be loaded.
int64_t ScratchBytes(const models::Model& model, backend::Backend& backend, int max_rows, int max_logit_rows,
                     int block_size);

// Threads that sample the rows of a step, the executor's own among them.
struct SamplingThreads {
  int count = 1;
  // Steps of fewer logits than this are sampled by one: the others would take longer to wake up.
  int64_t min_logits = 256 << 10;
};

// Runs a model's steps on one thread of its own, which is the only one that uses the backend meanwhile. A step that
// throws is reported by its Collect; the steps behind it run.
class ModelExecutor : public Executor {
 public:
  // All outlive the executor. `scratch_bytes` as ScratchBytes gives it. Samples do not depend on `sampling_threads`.
  ModelExecutor(const models::Model& model, backend::Backend& backend, backend::KvStore& kv, int64_t scratch_bytes,
                const SamplingThreads& sampling_threads = {});
  // Waits for the step that computes; drops what is queued.
  ~ModelExecutor() override;

  Ticket Launch(const sched::StepPlan& plan) override;
  std::vector<sched::SampledRow> Collect(Ticket ticket) override;

 private:
  struct Result {
    Ticket ticket = 0;
    std::vector<sched::SampledRow> rows;
    std::exception_ptr error;
  };

  void Run();
  Result RunStep(Ticket ticket, const sched::StepPlan& plan);
  std::vector<sched::SampledRow> SampleRows(const BuiltBatch& built, backend::Tensor logits);

  // What one row of logits gave: a token, log-probabilities or both.
  struct Sampled {
    Draw draw;
    std::optional<sched::PositionLogprobs> logprobs;
  };
  struct SamplingThread {
    Sampler sampler;
    std::vector<float> logits;  // one row on the host
  };
  Sampled SampleRow(const LogitUse& use, backend::Tensor logits, SamplingThread& thread);
  void Take(const LogitUse& use, Sampled sampled, sched::SampledRow& row);

  const models::Model& model_;
  backend::Backend& backend_;
  backend::KvStore& kv_;

  // Of the executor's thread alone.
  std::unique_ptr<backend::Arena> scratch_;
  RequestStates states_;
  int64_t min_pool_logits_;
  base::ThreadPool sampling_pool_;
  std::vector<SamplingThread> sampling_;  // one per worker of the pool

  std::mutex mutex_;  // of all below
  std::condition_variable launched_;
  std::condition_variable finished_;
  std::deque<std::pair<Ticket, sched::StepPlan>> queue_;
  std::deque<Result> results_;
  Ticket last_ticket_ = 0;
  bool stop_ = false;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace peng::engine
