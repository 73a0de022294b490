// SPDX-License-Identifier: Apache-2.0
#include "engine/model_executor.h"

#include <atomic>
#include <utility>

#include "backend/dry_run.h"
#include "base/check.h"
#include "engine/row_ops.h"

namespace peng::engine {
int64_t ScratchBytes(const models::Model& model, backend::Backend& backend, int max_rows, int max_logit_rows,
                     int block_size) {
  backend::DryRunOps ops;
  backend::DryRunKvStore kv(block_size);
  const std::unique_ptr<backend::Arena> counting = backend.MakeArena(0);
  const backend::ForwardBatch batch = backend::DryRunBatch(max_rows, max_logit_rows, block_size);
  backend::ExecContext context{ops, *counting, kv, batch};
  model.Forward(context);
  return counting->peak_bytes();
}

ModelExecutor::ModelExecutor(const models::Model& model, backend::Backend& backend, backend::KvStore& kv,
                             int64_t scratch_bytes, const SamplingThreads& sampling_threads)
    : model_(model),
      backend_(backend),
      kv_(kv),
      scratch_(backend.MakeArena(scratch_bytes)),
      min_pool_logits_(sampling_threads.min_logits),
      sampling_pool_(base::UnboundPool(sampling_threads.count)),
      sampling_(static_cast<size_t>(sampling_threads.count)),
      thread_([this] { Run(); }) {
  PENG_CHECK(scratch_bytes > 0);
}

ModelExecutor::~ModelExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  launched_.notify_one();
  thread_.join();
}

Ticket ModelExecutor::Launch(const sched::StepPlan& plan) {
  Ticket ticket;
  {
    const std::lock_guard lock(mutex_);
    ticket = ++last_ticket_;
    queue_.emplace_back(ticket, plan);
  }
  launched_.notify_one();
  return ticket;
}

std::vector<sched::SampledRow> ModelExecutor::Collect(Ticket ticket) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return !results_.empty(); });
  Result result = std::move(results_.front());
  results_.pop_front();
  PENG_CHECK(result.ticket == ticket);
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.rows);
}

void ModelExecutor::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    launched_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const auto [ticket, plan] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Result result = RunStep(ticket, plan);
    lock.lock();
    results_.push_back(std::move(result));
    finished_.notify_one();
  }
}

ModelExecutor::Result ModelExecutor::RunStep(Ticket ticket, const sched::StepPlan& plan) {
  Result result;
  result.ticket = ticket;
  for (const sched::RequestId id : plan.ended) states_.erase(id);
  for (const auto& spec : plan.started) states_.insert_or_assign(spec->id, RequestState(spec));
  try {
    const BuiltBatch built = BuildBatch(plan, states_, kv_.block_size());
    scratch_->Reset();
    backend::ExecContext context{backend_.ops(), *scratch_, kv_, built.batch};
    result.rows = SampleRows(built, model_.Forward(context));
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

std::vector<sched::SampledRow> ModelExecutor::SampleRows(const BuiltBatch& built, backend::Tensor logits) {
  const size_t num_uses = built.uses.size();
  std::vector<Sampled> sampled(num_uses);
  std::atomic<size_t> next{0};
  // Rows are independent: a request samples at most once in a step, and its state changes only after all rows are done.
  const auto work = [&](SamplingThread& thread) {
    for (size_t i = next++; i < num_uses; i = next++) {
      const int64_t row = static_cast<int64_t>(i);
      sampled[i] = SampleRow(built.uses[i], logits.Rows(row, row + 1), thread);
    }
  };
  if (num_uses > 1 && sampling_.size() > 1 && logits.rows * logits.cols >= min_pool_logits_) {
    sampling_pool_.Run([&](const base::WorkerId& id) { work(sampling_[static_cast<size_t>(id.index)]); });
  } else {
    work(sampling_[0]);
  }
  std::vector<sched::SampledRow> rows;
  for (size_t i = 0; i < num_uses; ++i) {
    const LogitUse& use = built.uses[i];
    // The uses of a request follow each other, but for one that computes rows of both phases.
    if (rows.empty() || rows.back().request != use.request) rows.emplace_back().request = use.request;
    Take(use, std::move(sampled[i]), rows.back());
  }
  return rows;
}

ModelExecutor::Sampled ModelExecutor::SampleRow(const LogitUse& use, backend::Tensor logits, SamplingThread& thread) {
  thread.logits.resize(static_cast<size_t>(logits.cols));
  backend_.Read(logits, thread.logits.data());
  const RequestState& state = states_.at(use.request);
  const sched::SamplingParams& params = state.spec->sampling;
  Sampled sampled;
  if (use.sample) {
    sampled.draw = thread.sampler.Sample(thread.logits, *state.spec, state.history, use.sample_index);
    if (!sampled.draw.error.empty() || params.num_logprobs < 0) return sampled;
    sampled.logprobs = thread.sampler.Logprobs(thread.logits, sampled.draw.id, params.num_logprobs);
  } else if (!ScanRow(thread.logits).finite) {
    sampled.draw.error = "the model computed logits that are not finite";
  } else {
    sampled.logprobs = thread.sampler.Logprobs(thread.logits, use.prompt_token, params.num_prompt_logprobs);
  }
  return sampled;
}

void ModelExecutor::Take(const LogitUse& use, Sampled sampled, sched::SampledRow& row) {
  if (!sampled.draw.error.empty()) {
    row.error = std::move(sampled.draw.error);
    row.error_of_request = sampled.draw.error_of_request;
    return;
  }
  if (use.sample) {
    RequestState& state = states_.at(use.request);
    state.last_sample = sampled.draw.id;
    state.history.Append(sampled.draw.id);
    row.ids.push_back(sampled.draw.id);
  }
  if (sampled.logprobs) (use.sample ? row.logprobs : row.prompt_logprobs).push_back(std::move(*sampled.logprobs));
}

}  // namespace peng::engine
