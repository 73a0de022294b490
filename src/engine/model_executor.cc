// SPDX-License-Identifier: Apache-2.0
#include "engine/model_executor.h"

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
                             int64_t scratch_bytes)
    : model_(model),
      backend_(backend),
      kv_(kv),
      scratch_(backend.MakeArena(scratch_bytes)),
      logits_(static_cast<size_t>(model.info().vocab_size)),
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
  std::vector<sched::SampledRow> rows;
  for (size_t i = 0; i < built.uses.size(); ++i) {
    const LogitUse& use = built.uses[i];
    // The uses of a request follow each other, but for one that computes rows of both phases.
    if (rows.empty() || rows.back().request != use.request) rows.emplace_back().request = use.request;
    const int64_t row = static_cast<int64_t>(i);
    backend_.Read(logits.Rows(row, row + 1), logits_.data());
    SampleRow(use, rows.back());
  }
  return rows;
}

void ModelExecutor::SampleRow(const LogitUse& use, sched::SampledRow& row) {
  RequestState& state = states_.at(use.request);
  const sched::SamplingParams& params = state.spec->sampling;
  if (!use.sample) {
    if (!ScanRow(logits_).finite) row.error = "the model computed logits that are not finite";
    row.prompt_logprobs.push_back(sampler_.Logprobs(logits_, use.prompt_token, params.num_prompt_logprobs));
    return;
  }
  Draw draw = sampler_.Sample(logits_, *state.spec, state.history, use.sample_index);
  if (!draw.error.empty()) {
    row.error = std::move(draw.error);
    return;
  }
  state.last_sample = draw.id;
  state.history.Append(draw.id);
  row.ids.push_back(draw.id);
  if (params.num_logprobs >= 0) row.logprobs.push_back(sampler_.Logprobs(logits_, draw.id, params.num_logprobs));
}

}  // namespace peng::engine
