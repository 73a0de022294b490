// SPDX-License-Identifier: Apache-2.0
// A part of http.cc: the way back of one request.
#pragma once

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/http.h"
#include "server/http_stream-inl.h"

namespace peng::server {

// Filled by any thread, emptied by the connection's coroutine on its strand. It may be held for longer than the server
// lives; once it is detached nothing of it refers to the server.
class Exchange final : public HttpReply, public std::enable_shared_from_this<Exchange> {
 public:
  // `abandon` closes the connection; it is called on the strand.
  Exchange(boost::asio::any_io_executor executor, const HttpLimits& limits, std::function<void()> abandon)
      : executor_(executor),
        wake_(std::in_place, executor),
        max_unsent_(limits.unsent_bytes),
        max_unsent_per_stream_(limits.unsent_stream_bytes),
        abandon_(std::move(abandon)) {}

  void Send(HttpResponse response) override {
    std::unique_lock lock(mutex_);
    if (started_) return;
    started_ = finished_ = true;
    response_ = std::move(response);
    whole_ = true;
    Wake(lock);
  }

  void Start(int status, std::string_view content_type, HttpHeaders headers) override {
    std::unique_lock lock(mutex_);
    if (started_) return;
    started_ = true;
    response_.status = status;
    response_.content_type = content_type;
    response_.headers = std::move(headers);
    Wake(lock);
  }

  void CarryStreams(size_t streams) override {
    std::unique_lock lock(mutex_);
    max_unsent_ = std::max(max_unsent_, streams * max_unsent_per_stream_);
  }

  bool Write(std::string_view bytes) override {
    std::unique_lock lock(mutex_);
    if (gone_ || finished_ || too_slow_ || !executor_) return false;
    if (unsent_.size() + bytes.size() > max_unsent_) {
      // The connection's coroutine reports it: the caller may hold locks. It may be stuck in a write.
      too_slow_ = true;
      boost::asio::post(executor_, abandon_);
      Wake(lock);
      return false;
    }
    unsent_ += bytes;
    Wake(lock);
    return true;
  }

  void Finish() override {
    std::unique_lock lock(mutex_);
    finished_ = true;
    Wake(lock);
  }

  void OnDisconnect(std::function<void()> gone) override {
    std::unique_lock lock(mutex_);
    if (gone_) {
      lock.unlock();
      gone();
    } else if (!complete_) {
      on_gone_ = std::move(gone);
    }
  }

  // The client has left: the rest is dropped.
  void MarkGone() {
    std::function<void()> callback;
    {
      std::lock_guard lock(mutex_);
      if (gone_ || complete_) return;
      gone_ = true;
      unsent_.clear();
      callback = std::move(on_gone_);
      on_gone_ = nullptr;
    }
    if (callback) callback();
  }

  void MarkComplete() {
    std::function<void()> dropped;  // destroyed outside the lock: it may own the request
    std::lock_guard lock(mutex_);
    complete_ = true;
    dropped.swap(on_gone_);
  }

  // On the strand, or when no thread serves it any more: the last use of the server.
  void Detach() {
    std::lock_guard lock(mutex_);
    wake_.reset();
    executor_ = {};
  }

  struct Piece {
    bool head = false;  // the status line and headers are to be sent first
    std::string bytes = {};
    bool last = false;
    bool too_slow = false;
    bool idle = false;  // nothing came for as long as asked
  };

  // On the strand: waits for something to send, at most until `end`.
  boost::asio::awaitable<Piece> Next(std::chrono::steady_clock::time_point end) {
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        Piece piece;
        piece.head = started_ && !head_taken_;
        piece.bytes.swap(unsent_);
        piece.last = finished_;
        piece.too_slow = too_slow_;
        head_taken_ = head_taken_ || piece.head;
        if (piece.head || !piece.bytes.empty() || piece.last || piece.too_slow) co_return piece;
      }
      boost::system::error_code woken;
      wake_->expires_at(end);
      co_await wake_->async_wait(Await(woken));
      if (!woken) co_return Piece{.idle = true};
      const auto state = co_await boost::asio::this_coro::cancellation_state;
      if (state.cancelled() != boost::asio::cancellation_type::none) co_return Piece{.last = true, .too_slow = true};
    }
  }

  // Stable once head was reported.
  const HttpResponse& response() const { return response_; }
  bool whole() const { return whole_; }

 private:
  // The waiting side checks and waits on the strand, so a cancel posted there cannot fall between the two.
  // Posted under the lock, so that Detach comes before or after it.
  void Wake(const std::unique_lock<std::mutex>&) {
    if (!executor_) return;
    boost::asio::post(executor_, [self = shared_from_this()] {
      if (self->wake_) self->wake_->cancel();
    });
  }

  boost::asio::any_io_executor executor_;
  std::optional<boost::asio::steady_timer> wake_;  // of the strand only
  size_t max_unsent_;
  const size_t max_unsent_per_stream_;
  const std::function<void()> abandon_;
  std::mutex mutex_;
  HttpResponse response_;
  std::string unsent_;
  bool started_ = false, whole_ = false, head_taken_ = false, finished_ = false;
  bool gone_ = false, complete_ = false, too_slow_ = false;
  std::function<void()> on_gone_;
};

}  // namespace peng::server
