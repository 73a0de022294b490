// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace peng::engine {

using Clock = RequestTimes::Clock;

Engine::Engine(const EngineConfig& config, std::unique_ptr<Executor> executor)
    : config_(config),
      executor_(std::move(executor)),
      pool_(config.num_blocks, config.enable_prefix_cache),
      scheduler_(config.scheduler, pool_) {
  PENG_CHECK(config_.max_steps_in_flight == 1 || config_.max_steps_in_flight == 2);
  stats_.kv_total_tokens = int64_t{pool_.num_usable()} * config_.scheduler.block_size;
  stats_.kv_block_size = config_.scheduler.block_size;
  stats_.prefix_caching = config_.enable_prefix_cache;
  health_ = EngineHealth::kReady;
  last_start_ = Clock::now();
  thread_ = std::thread([this] { Run(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

// ---- the front end's side

std::optional<SubmitRefusal> Engine::Submit(sched::RequestSpec spec) {
  using Kind = SubmitRefusal::Kind;
  if (auto refusal = scheduler_.Refusal(spec)) return SubmitRefusal{Kind::kInvalid, std::move(*refusal)};
  if (config_.vocab_size > 0) {
    const auto unknown = [&](int32_t id) { return id < 0 || id >= config_.vocab_size; };
    const auto bad = std::find_if(spec.prompt.begin(), spec.prompt.end(), unknown);
    if (bad != spec.prompt.end()) {
      return SubmitRefusal{Kind::kInvalid, fmt::format("the prompt has token id {}; the model's ids are 0 to {}", *bad,
                                                       config_.vocab_size - 1)};
    }
  }
  const sched::RequestId id = spec.id;
  const int64_t num_prompt_tokens = static_cast<int64_t>(spec.prompt.size());
  auto shared = std::make_shared<const sched::RequestSpec>(std::move(spec));
  {
    const std::lock_guard lock(mutex_);
    if (health_ == EngineHealth::kDead) return SubmitRefusal{Kind::kDown, "the engine has failed; restart the server"};
    if (health_ == EngineHealth::kDraining) return SubmitRefusal{Kind::kDown, "the server is shutting down"};
    if (live_.contains(id)) return SubmitRefusal{Kind::kInvalid, fmt::format("request id {} is in use", id)};
    if (auto refusal = QueueRefusal(num_prompt_tokens)) return refusal;
    live_.emplace(id, Live{Clock::now(), num_prompt_tokens});
    ++num_queued_;
    num_queued_tokens_ += num_prompt_tokens;
    inbox_.emplace_back(std::move(shared));
  }
  wake_.notify_one();
  return std::nullopt;
}

// Under the lock. A burst that the engine thread has not seen yet waits for places that are free, not in the queue.
std::optional<SubmitRefusal> Engine::QueueRefusal(int64_t num_prompt_tokens) {
  const int64_t seats = stats_.scheduler.waiting > 0 ? 0 : config_.scheduler.max_num_seqs - stats_.scheduler.running;
  if (num_queued_ < std::max<int64_t>(seats, 1)) return std::nullopt;
  const int64_t most_reqs = config_.max_num_queued_reqs, most_tokens = config_.max_num_queued_tokens;
  std::string full;
  if (most_reqs > 0 && num_queued_ - std::max<int64_t>(seats, 0) >= most_reqs) {
    ++stats_.refused_queue_reqs;
    full = fmt::format("{} requests", most_reqs);
  } else if (most_tokens > 0 && num_queued_tokens_ + num_prompt_tokens > most_tokens) {
    ++stats_.refused_queue_tokens;
    full = fmt::format("{} prompt tokens", most_tokens);
  } else {
    return std::nullopt;
  }
  // The longer nothing has left the queue, the longer it takes until it is worth asking again.
  const auto stuck = std::chrono::ceil<std::chrono::seconds>(Clock::now() - last_start_).count();
  return SubmitRefusal{SubmitRefusal::Kind::kBusy, fmt::format("the queue is full ({}); try again later", full),
                       static_cast<int>(std::clamp<int64_t>(stuck, 1, 30))};
}

void Engine::Abort(sched::RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    if (!live_.contains(id)) return;
    inbox_.emplace_back(id);
  }
  wake_.notify_one();
}

std::vector<EngineEvent> Engine::Poll(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  published_.wait_for(lock, timeout, [&] { return !outbox_.empty(); });
  return std::exchange(outbox_, {});
}

EngineHealth Engine::Health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

EngineStats Engine::Stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.step_seconds_p99 = step_times_.Quantile(0.99);
  // What was submitted while a step computes is not in the scheduler yet.
  stats.scheduler.waiting = static_cast<int>(live_.size()) - stats.scheduler.running;
  return stats;
}

void Engine::ResetPrefixCache() {
  const std::lock_guard lock(mutex_);
  reset_prefix_cache_ = true;
}

void Engine::Drain() {
  const std::lock_guard lock(mutex_);
  if (health_ == EngineHealth::kReady) health_ = EngineHealth::kDraining;
}

bool Engine::WaitIdle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return published_.wait_for(lock, timeout, [&] { return live_.empty(); });
}

// ---- the engine thread

void Engine::Run() {
  try {
    while (WaitForWork()) RunStep();
  } catch (const std::exception& e) {
    Die(e.what());
  }
}

bool Engine::WaitForWork() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stop_ || !inbox_.empty() || scheduler_.HasWork() || !in_flight_.empty(); });
  return !stop_;
}

// At most one step computes and one waits behind it, so an abort takes effect with the next plan and costs no more than
// the rows of these two.
void Engine::RunStep() {
  DrainInbox();
  const size_t before = in_flight_.size();
  LaunchNext();
  const bool launched = in_flight_.size() > before;
  // With work left and nothing planned, only a step in flight can change anything.
  PENG_CHECK(launched || !in_flight_.empty() || !scheduler_.HasWork());
  if (static_cast<int>(in_flight_.size()) >= config_.max_steps_in_flight || (!launched && !in_flight_.empty())) {
    CollectOldest();
  }
  PublishStats();
}

void Engine::DrainInbox() {
  std::vector<Message> messages;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(inbox_);
    if (std::exchange(reset_prefix_cache_, false)) pool_.ResetIndex();
    for (const Message& message : messages) {
      if (const auto* spec = std::get_if<std::shared_ptr<const sched::RequestSpec>>(&message)) {
        Tracked& tracked = tracked_[(*spec)->id];
        tracked.times.queued = live_.at((*spec)->id).queued;
        tracked.num_prompt_tokens = static_cast<int64_t>((*spec)->prompt.size());
      }
    }
  }
  std::vector<sched::RequestEvent> events;
  for (const Message& message : messages) {
    if (const auto* spec = std::get_if<std::shared_ptr<const sched::RequestSpec>>(&message)) {
      PENG_CHECK(!scheduler_.Add(*spec));  // Submit asked for the refusal
    } else if (scheduler_.Abort(std::get<sched::RequestId>(message))) {
      events.emplace_back().request = std::get<sched::RequestId>(message);
      events.back().finish = sched::FinishReason::kAbort;
    }
  }
  Publish(std::move(events));
}

void Engine::LaunchNext() {
  Step step;
  step.plan = scheduler_.Schedule();
  if (step.plan.empty()) return;
  NoteStarted(step.plan);
  step.launched = Clock::now();
  step.ticket = executor_->Launch(step.plan);
  in_flight_.push_back(std::move(step));
}

void Engine::NoteStarted(const sched::StepPlan& plan) {
  const Clock::time_point now = Clock::now();
  for (const auto& spec : plan.started) tracked_.at(spec->id).times.scheduled = now;
  const std::lock_guard lock(mutex_);
  for (const auto& spec : plan.started) LeaveQueue(live_.at(spec->id));
  if (!plan.started.empty()) last_start_ = now;
  // Before the engine waits for a step, so that the gauges show what it computes.
  stats_.scheduler = scheduler_.stats();
}

// Under the lock.
void Engine::LeaveQueue(Live& live) {
  if (std::exchange(live.has_run, true)) return;
  --num_queued_;
  num_queued_tokens_ -= live.num_prompt_tokens;
}

// Under the lock.
void Engine::EndLive(sched::RequestId id) {
  const auto it = live_.find(id);
  LeaveQueue(it->second);
  live_.erase(it);
}

void Engine::CollectOldest() {
  const Step step = std::move(in_flight_.front());
  in_flight_.pop_front();
  std::vector<sched::SampledRow> rows;
  std::string failure;
  try {
    rows = executor_->Collect(step.ticket);
  } catch (const std::exception& e) {
    failure = e.what();
    NoteModelFault(e);
    base::LogError("step {} failed and ends its {} sequences: {}", step.plan.step, step.plan.sequences.size(), failure);
  }
  CountStep(step);  // before whoever waits for its results can ask
  Publish(failure.empty() ? scheduler_.Commit(step.plan, rows) : scheduler_.Fail(step.plan, failure));
}

// A file that was cut or written over stays so: what every request would find is told before it asks.
void Engine::NoteModelFault(const std::exception& failure) {
  const auto* error = dynamic_cast<const base::Error*>(&failure);
  if (error == nullptr || error->kind() != base::ErrorKind::kModelFile) return;
  const std::lock_guard lock(mutex_);
  stats_.model_fault = error->what();
}

void Engine::CountStep(const Step& step) {
  // A step that was queued behind another one begins when that one ends.
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> took = now - std::max(step.launched, std::exchange(last_collected_, now));
  const std::lock_guard lock(mutex_);
  ++stats_.steps;
  stats_.iteration_tokens.Observe(step.plan.num_rows());
  step_times_.Observe(took.count());
}

void Engine::Publish(std::vector<sched::RequestEvent> events) {
  if (events.empty()) return;
  const Clock::time_point now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    for (sched::RequestEvent& event : events) {
      const sched::RequestId id = event.request;
      const bool ends = event.finish != sched::FinishReason::kNone;
      Tracked& tracked = tracked_.at(id);
      if (!event.ids.empty()) {
        if (!tracked.times.first_token) {
          tracked.times.first_token = now;
          stats_.prompt_tokens += static_cast<uint64_t>(tracked.num_prompt_tokens);
          stats_.cached_prompt_tokens += static_cast<uint64_t>(event.num_cached_tokens);
        }
        tracked.times.last_token = now;
        stats_.generation_tokens += event.ids.size();
      }
      outbox_.push_back({std::move(event), tracked.times});
      if (!ends) continue;
      tracked_.erase(id);
      EndLive(id);
    }
    // Whoever saw the end of a stream sees gauges without it.
    stats_.scheduler = scheduler_.stats();
  }
  published_.notify_all();
}

void Engine::PublishStats() {
  const std::lock_guard lock(mutex_);
  stats_.scheduler = scheduler_.stats();
}

void Engine::Die(const std::string& reason) {
  base::LogError("the engine stops: {}", reason);
  {
    const std::lock_guard lock(mutex_);
    health_ = EngineHealth::kDead;
    for (const auto& [id, live] : live_) {
      EngineEvent& event = outbox_.emplace_back();
      event.event.request = id;
      event.event.finish = sched::FinishReason::kError;
      event.event.error = reason;
      event.times.queued = live.queued;
    }
    live_.clear();
    num_queued_ = num_queued_tokens_ = 0;
    stats_.scheduler.running = stats_.scheduler.waiting = 0;
    stats_.scheduler.kv_usage = 0;
    inbox_.clear();
  }
  published_.notify_all();
}

}  // namespace peng::engine
