// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "cache/block_pool.h"
#include "engine/engine_client.h"
#include "engine/executor.h"
#include "sched/scheduler.h"

namespace peng::engine {

struct EngineConfig {
  sched::SchedulerConfig scheduler;
  int num_blocks = 0;  // of the KV store, with the null block
  bool enable_prefix_cache = true;
  // 2 = the next step is planned and queued while one computes; 1 = one after the other.
  int max_steps_in_flight = 2;
  int64_t vocab_size = 0;  // prompts with other ids are refused; 0 = not checked
  // Of requests that have not begun to run; more are refused. 0 = no limit. A request that finds a free place, or an
  // empty queue, is taken whatever its length.
  int64_t max_num_queued_reqs = 0;
  int64_t max_num_queued_tokens = 0;
};

// The loop: one thread owns scheduler and block pool and drives the executor. Locks only at the inbox and the outbox.
// Without requests the thread sleeps.
class Engine : public EngineClient {
 public:
  Engine(const EngineConfig& config, std::unique_ptr<Executor> executor);
  // Drops whatever is left; call Drain and WaitIdle before to let it finish.
  ~Engine() override;

  std::optional<SubmitRefusal> Submit(sched::RequestSpec spec) override;
  void Abort(sched::RequestId id) override;
  std::vector<EngineEvent> Poll(std::chrono::milliseconds timeout) override;
  EngineHealth Health() const override;
  EngineStats Stats() const override;
  void ResetPrefixCache() override;

  // Refuses new requests from now on; those it has go on.
  void Drain();
  // Waits until no request is left; false if some are after `timeout`.
  bool WaitIdle(std::chrono::milliseconds timeout);

 private:
  using Message = std::variant<std::shared_ptr<const sched::RequestSpec>, sched::RequestId>;  // a request, or an abort
  struct Step {
    sched::StepPlan plan;
    Ticket ticket = 0;
    RequestTimes::Clock::time_point launched;
  };
  struct Live {
    RequestTimes::Clock::time_point queued;
    int64_t num_prompt_tokens = 0;
    bool has_run = false;
  };

  void Run();
  bool WaitForWork();
  void RunStep();
  void DrainInbox();
  void LaunchNext();
  void CollectOldest();
  void NoteModelFault(const std::exception& failure);
  void CountStep(const Step& step);
  void Publish(std::vector<sched::RequestEvent> events);
  void PublishStats();
  std::optional<SubmitRefusal> QueueRefusal(int64_t num_prompt_tokens);
  void NoteStarted(const sched::StepPlan& plan);
  void LeaveQueue(Live& live);
  void EndLive(sched::RequestId id);
  void Die(const std::string& reason);

  const EngineConfig config_;
  const std::unique_ptr<Executor> executor_;

  // Of the engine thread alone.
  cache::BlockPool pool_;
  sched::Scheduler scheduler_;
  std::deque<Step> in_flight_;
  RequestTimes::Clock::time_point last_collected_;
  struct Tracked {
    RequestTimes times;
    int64_t num_prompt_tokens = 0;
  };
  std::unordered_map<sched::RequestId, Tracked> tracked_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  std::condition_variable published_;
  std::vector<Message> inbox_;
  std::unordered_map<sched::RequestId, Live> live_;
  int64_t num_queued_ = 0;                        // of them, those that have not begun to run
  int64_t num_queued_tokens_ = 0;                 // their prompts
  RequestTimes::Clock::time_point last_start_{};  // when one last left the queue
  std::vector<EngineEvent> outbox_;
  EngineStats stats_;
  StepTimes step_times_;
  bool reset_prefix_cache_ = false;
  EngineHealth health_ = EngineHealth::kStarting;
  bool stop_ = false;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace peng::engine
