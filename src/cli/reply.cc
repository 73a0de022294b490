// SPDX-License-Identifier: Apache-2.0
#include "cli/reply.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <optional>
#include <queue>

#include "base/error.h"

namespace peng::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;
struct sigaction g_previous;

// What the dispatcher thread hands to the printing thread.
class DeltaQueue {
 public:
  void Push(const api::Delta& delta) {
    std::lock_guard lock(mutex_);
    deltas_.push(delta);
    ready_.notify_one();
  }
  // Nothing if none came within the time.
  std::optional<api::Delta> Pop(std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, wait, [this] { return !deltas_.empty(); })) return std::nullopt;
    api::Delta delta = std::move(deltas_.front());
    deltas_.pop();
    return delta;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::queue<api::Delta> deltas_;
};

[[noreturn]] void Refuse(const api::Refusal& refusal) {
  const bool caller = refusal.kind == api::Refusal::Kind::kInvalid;
  throw base::Error(caller ? base::ErrorKind::kUsage : base::ErrorKind::kRuntime, "", refusal.message);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_interrupted = 1; };  // no SA_RESTART: a waiting read returns
  sigaction(SIGINT, &action, &g_previous);
}

InterruptFlag::~InterruptFlag() { sigaction(SIGINT, &g_previous, nullptr); }

bool InterruptFlag::Taken() {
  const bool taken = g_interrupted != 0;
  g_interrupted = 0;
  return taken;
}

Reply StreamReply(api::Llm& llm, api::GenerateRequest request) {
  using Clock = std::chrono::steady_clock;
  const auto since = [start = Clock::now()] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  auto prepared = llm.Prepare(std::move(request));
  if (const auto* refusal = std::get_if<api::Refusal>(&prepared)) Refuse(*refusal);
  const auto queue = std::make_shared<DeltaQueue>();
  auto started = llm.Start(std::get<api::PreparedRequest>(prepared), [queue](const api::Delta& d) { queue->Push(d); });
  if (const auto* refusal = std::get_if<api::Refusal>(&started)) Refuse(*refusal);

  Reply reply;
  InterruptFlag::Taken();
  while (true) {
    if (InterruptFlag::Taken()) {
      std::get<std::shared_ptr<api::Generation>>(started)->Cancel();
      reply.interrupted = true;
      break;
    }
    const std::optional<api::Delta> delta = queue->Pop(std::chrono::milliseconds(50));
    if (!delta) continue;
    if (reply.tokens == 0 && !delta->token_ids.empty()) reply.first_token_seconds = since();
    reply.tokens += static_cast<int>(delta->token_ids.size());
    reply.text += delta->text;
    std::fwrite(delta->text.data(), 1, delta->text.size(), stdout);
    std::fflush(stdout);
    if (delta->finish == api::Finish::kError) throw base::Error(base::ErrorKind::kRuntime, "", delta->error);
    if (delta->finish != api::Finish::kNone) break;
  }
  reply.total_seconds = since();
  return reply;
}

}  // namespace peng::cli
