// SPDX-License-Identifier: Apache-2.0
#include "server/http.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace peng::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

auto Await(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

bool SameName(std::string_view a, std::string_view b) { return beast::iequals(a, b); }

// One request's way back: filled by any thread, emptied by the connection's coroutine on its strand.
class Exchange final : public HttpReply, public std::enable_shared_from_this<Exchange> {
 public:
  // `abandon` closes the connection; it is called on the strand.
  Exchange(asio::any_io_executor executor, size_t max_unsent, std::function<void()> abandon)
      : executor_(executor), wake_(executor), max_unsent_(max_unsent), abandon_(std::move(abandon)) {}

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

  bool Write(std::string_view bytes) override {
    std::unique_lock lock(mutex_);
    if (gone_ || finished_ || too_slow_) return false;
    if (unsent_.size() + bytes.size() > max_unsent_) {
      // The connection's coroutine reports it: the caller may hold locks. It may be stuck in a write.
      too_slow_ = true;
      asio::post(executor_, abandon_);
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

  struct Piece {
    bool head = false;  // the status line and headers are to be sent first
    std::string bytes = {};
    bool last = false;
    bool too_slow = false;
  };

  // On the strand: waits for something to send.
  asio::awaitable<Piece> Next() {
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
      error_code ignored;
      wake_.expires_at(std::chrono::steady_clock::time_point::max());
      co_await wake_.async_wait(Await(ignored));
      if (ignored && (co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) {
        co_return Piece{.last = true, .too_slow = true};
      }
    }
  }

  // Stable once head was reported.
  const HttpResponse& response() const { return response_; }
  bool whole() const { return whole_; }

 private:
  // The waiting side checks and waits on the strand, so a cancel posted there cannot fall between the two.
  void Wake(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    asio::post(executor_, [self = shared_from_this()] { self->wake_.cancel(); });
  }

  asio::any_io_executor executor_;
  asio::steady_timer wake_;
  const size_t max_unsent_;
  const std::function<void()> abandon_;
  std::mutex mutex_;
  HttpResponse response_;
  std::string unsent_;
  bool started_ = false, whole_ = false, head_taken_ = false, finished_ = false;
  bool gone_ = false, complete_ = false, too_slow_ = false;
  std::function<void()> on_gone_;
};

template <typename Message>
void SetHead(Message& message, const HttpResponse& response, bool keep_alive) {
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::server, "peng");
  if (!response.content_type.empty()) message.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  message.keep_alive(keep_alive);
}

bool PeerClosed(tcp::socket& socket) {
  pollfd fd{socket.native_handle(), POLLRDHUP, 0};
  return ::poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

// Returns when the peer has closed its side. Bytes of a next, pipelined request are left where they are.
asio::awaitable<void> AwaitPeerClosed(tcp::socket& socket) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  error_code error;
  co_await socket.async_wait(tcp::socket::wait_read, Await(error));
  while (!error && !PeerClosed(socket)) {
    timer.expires_after(milliseconds(200));
    co_await timer.async_wait(Await(error));
  }
  // Cancelled because the reply is complete: the other side of the || has already won.
  if (error == asio::error::operation_aborted) {
    timer.expires_at(std::chrono::steady_clock::time_point::max());
    co_await timer.async_wait(Await(error));
  }
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (SameName(key, name)) return value;
  }
  return {};
}

struct HttpServer::Impl {
  Impl(HttpOptions o, HttpHandler h)
      : options(std::move(o)),
        handler(std::move(h)),
        workers(std::max(1, options.worker_threads)),
        lookups(1),
        io(std::max(1, options.io_threads)),
        acceptor(asio::make_strand(io)) {}

  void Listen();
  asio::awaitable<void> AcceptLoop();
  void CloseIdle();

  HttpOptions options;
  HttpHandler handler;
  asio::thread_pool workers;
  asio::thread_pool lookups;  // requests without a body: a health probe must not wait for long prompts to be tokenized
  asio::io_context io;
  tcp::acceptor acceptor;
  std::vector<std::thread> threads;
  uint16_t port = 0;
  std::atomic<bool> draining{false};

  class Connection;
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::shared_ptr<Connection>> connections;
  int busy = 0;  // connections with a request under way
};

// One client: requests one after another, on a strand of its own.
class HttpServer::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& impl, tcp::socket socket)
      : impl_(impl),
        limits_(impl.options.limits),
        stream_(std::move(socket)),
        buffer_(limits_.header_bytes + kReadBytes) {}

  asio::awaitable<void> Run() {
    try {
      while (co_await ServeOne()) {
      }
    } catch (const std::exception& e) {
      base::LogDebug("connection closed: {}", e.what());
    }
    if (busy_) SetBusy(false);
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.socket().close(ignored);
    std::lock_guard lock(impl_.mutex);
    impl_.connections.erase(shared_from_this());
    impl_.changed.notify_all();
  }

  void CloseIfIdle() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      error_code ignored;
      if (!self->busy_) self->stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    });
  }

  void Close() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->stream_.close(); });
  }

 private:
  using Parser = http::request_parser<http::string_body>;
  // Read at once. The buffer holds a header and this much: chunk extensions and trailers, which no limit of the parser
  // counts, end there.
  static constexpr size_t kReadBytes = 64 << 10;

  // False when the connection is to be closed.
  asio::awaitable<bool> ServeOne() {
    if (!co_await AwaitFirstByte()) co_return false;
    SetBusy(true);
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    parser.body_limit(limits_.body_bytes);
    error_code error;
    stream_.expires_after(limits_.header);
    co_await http::async_read_header(stream_, buffer_, parser, Await(error));
    if (error) co_return co_await RefuseBroken(error);

    HttpRequest request = Head(parser.get());
    const bool has_body = !parser.is_done();
    const bool head_only = parser.get().method() == http::verb::head;
    version_ = parser.get().version();
    keep_alive_ = parser.get().keep_alive() && !impl_.draining;
    if (request.headers.size() > limits_.header_count) co_return co_await Refuse(431, "Too many header fields.");
    if (impl_.options.precheck) {
      if (auto refusal = impl_.options.precheck(request)) {
        if (has_body) keep_alive_ = false;
        co_await SendWhole(*refusal, head_only);
        if (has_body) co_await DiscardRest();
        co_return Done();
      }
    }
    if (has_body) {
      if (SameName(request.Header("Expect"), "100-continue")) co_await SendContinue();
      stream_.expires_after(limits_.body);
      co_await http::async_read(stream_, buffer_, parser, Await(error));
      if (error) co_return co_await RefuseBroken(error);
    }
    request.body = std::move(parser.get().body());
    co_await Handle(std::move(request), head_only);
    co_return Done();
  }

  bool Done() {
    SetBusy(false);
    return keep_alive_ && !impl_.draining;
  }

  void SetBusy(bool busy) {
    if (busy_ == busy) return;
    busy_ = busy;
    std::lock_guard lock(impl_.mutex);
    impl_.busy += busy ? 1 : -1;
    impl_.changed.notify_all();
  }

  asio::awaitable<bool> AwaitFirstByte() {
    if (buffer_.size() > 0) co_return true;
    error_code error;
    stream_.expires_after(limits_.idle);
    const size_t n = co_await stream_.async_read_some(buffer_.prepare(4096), Await(error));
    buffer_.commit(n);
    co_return !error;
  }

  HttpRequest Head(const http::request<http::string_body>& message) {
    HttpRequest request;
    request.method = std::string(message.method_string());
    const std::string_view target(message.target().data(), message.target().size());
    const size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
    for (const auto& field : message) {
      request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    error_code error;
    const auto peer = stream_.socket().remote_endpoint(error);
    if (!error) request.remote = peer.address().to_string() + ":" + std::to_string(peer.port());
    return request;
  }

  // Answers what could not be read as a request, as far as there is anyone to answer.
  asio::awaitable<bool> RefuseBroken(error_code error) {
    if (error == http::error::body_limit) {
      co_return co_await Refuse(413, "Request body exceeds " + std::to_string(limits_.body_bytes) + " bytes.");
    }
    if (error == http::error::header_limit) {
      co_return co_await Refuse(431, "Request header exceeds " + std::to_string(limits_.header_bytes) + " bytes.");
    }
    if (error == beast::error::timeout) co_return false;  // the stream is closed already
    if (error.category() == http::make_error_code(http::error::end_of_stream).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      co_return co_await Refuse(400, "Malformed HTTP request.");
    }
    co_return false;
  }

  asio::awaitable<bool> Refuse(int status, std::string message) {
    keep_alive_ = false;
    HttpResponse response{.status = status};
    if (impl_.options.error_body) response.body = impl_.options.error_body(status, message);
    co_await SendWhole(response, false);
    co_await DiscardRest();
    co_return false;
  }

  // A client that is still sending would see a reset instead of the reply if the socket closed under it.
  asio::awaitable<void> DiscardRest() {
    error_code error;
    stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    std::vector<char> sink(64 << 10);
    stream_.expires_after(std::chrono::seconds(5));
    for (size_t total = 0; !error && total < 8 * limits_.body_bytes;) {
      total += co_await stream_.async_read_some(asio::buffer(sink), Await(error));
    }
  }

  asio::awaitable<void> SendContinue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    error_code error;
    stream_.expires_after(limits_.write);
    co_await asio::async_write(stream_, asio::buffer(kContinue), Await(error));
  }

  asio::awaitable<void> SendWhole(const HttpResponse& response, bool head_only) {
    http::response<http::span_body<const char>> message;
    message.version(version_);
    message.body() = {response.body.data(), response.body.size()};
    SetHead(message, response, keep_alive_);
    message.content_length(response.body.size());
    http::response_serializer<http::span_body<const char>> serializer(message);
    error_code error;
    stream_.expires_after(limits_.write);
    if (head_only) {
      co_await http::async_write_header(stream_, serializer, Await(error));
    } else {
      co_await http::async_write(stream_, serializer, Await(error));
    }
    if (error) keep_alive_ = false;
  }

  asio::awaitable<void> Handle(HttpRequest request, bool head_only) {
    using namespace asio::experimental::awaitable_operators;  // NOLINT
    auto exchange = std::make_shared<Exchange>(stream_.get_executor(), limits_.unsent_bytes, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->stream_.close();
    });
    stream_.expires_never();
    asio::thread_pool& threads = request.body.empty() ? impl_.lookups : impl_.workers;
    asio::post(threads, [&impl = impl_, exchange, request = std::move(request)]() mutable {
      try {
        impl.handler(std::move(request), exchange);
      } catch (const std::exception& e) {
        base::LogError("request failed: {}", base::Printable(e.what()));
        HttpResponse failed{.status = 500};
        if (impl.options.error_body) failed.body = impl.options.error_body(500, "Internal server error.");
        exchange->Send(std::move(failed));
      }
    });
    const auto outcome = co_await (SendReply(exchange, head_only) || AwaitPeerClosed(stream_.socket()));
    const bool sent = outcome.index() == 0 && std::get<0>(outcome);
    if (sent) {
      exchange->MarkComplete();
    } else {
      keep_alive_ = false;
      exchange->MarkGone();
    }
  }

  // True once the whole reply is out.
  asio::awaitable<bool> SendReply(std::shared_ptr<Exchange> exchange, bool head_only) {
    Exchange::Piece piece = co_await exchange->Next();
    if (exchange->whole()) {
      co_await SendWhole(exchange->response(), head_only);
      co_return true;
    }
    const bool chunked = version_ >= 11;
    if (!chunked) keep_alive_ = false;
    http::response<http::empty_body> message;
    message.version(version_);
    SetHead(message, exchange->response(), keep_alive_);
    if (chunked) message.chunked(true);
    http::response_serializer<http::empty_body> serializer(message);
    error_code error;
    stream_.expires_after(limits_.write);
    co_await http::async_write_header(stream_, serializer, Await(error));
    while (!error) {
      if (piece.too_slow) co_return false;
      if (!piece.bytes.empty() && !head_only) co_await WritePiece(piece.bytes, chunked, error);
      if (piece.last || error) break;
      stream_.expires_never();
      piece = co_await exchange->Next();
    }
    if (!error && chunked && !head_only) co_await asio::async_write(stream_, http::make_chunk_last(), Await(error));
    co_return !error;
  }

  asio::awaitable<void> WritePiece(const std::string& bytes, bool chunked, error_code& error) {
    stream_.expires_after(limits_.write);
    if (chunked) {
      co_await asio::async_write(stream_, http::make_chunk(asio::buffer(bytes)), Await(error));
    } else {
      co_await asio::async_write(stream_, asio::buffer(bytes), Await(error));
    }
  }

  Impl& impl_;
  const HttpLimits& limits_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  unsigned version_ = 11;
  bool keep_alive_ = false;
  bool busy_ = false;
};

void HttpServer::Impl::Listen() {
  const std::string where = options.host + ":" + std::to_string(options.port);
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    throw base::Error(base::ErrorKind::kUsage, "--host " + base::Printable(options.host),
                      "is not an address of this machine", "use 127.0.0.1, 0.0.0.0 or ::");
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(4096, error);
  if (error) {
    throw base::Error(base::ErrorKind::kUsage, where, "cannot listen: " + error.message(),
                      "choose another --host or --port");
  }
  port = acceptor.local_endpoint().port();
}

asio::awaitable<void> HttpServer::Impl::AcceptLoop() {
  while (acceptor.is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(asio::make_strand(io), Await(error));
    if (error == asio::error::operation_aborted || !acceptor.is_open()) co_return;
    if (error) {  // out of descriptors, or a client that has gone: neither may stop the others
      asio::steady_timer pause(acceptor.get_executor(), milliseconds(50));
      co_await pause.async_wait(Await(error));
      continue;
    }
    socket.set_option(tcp::no_delay(true), error);
    const auto executor = socket.get_executor();
    auto connection = std::make_shared<Connection>(*this, std::move(socket));
    {
      std::lock_guard lock(mutex);
      if (connections.size() >= options.limits.connections) continue;
      connections.insert(connection);
    }
    asio::co_spawn(executor, [connection] { return connection->Run(); }, asio::detached);
  }
}

void HttpServer::Impl::CloseIdle() {
  std::lock_guard lock(mutex);
  for (const auto& connection : connections) connection->CloseIfIdle();
}

namespace {

// Thousands of streams need as many descriptors; the soft limit of most systems is 1024.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace

HttpServer::HttpServer(HttpOptions options, HttpHandler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {
  RaiseDescriptorLimit();
  impl_->Listen();
  asio::co_spawn(impl_->acceptor.get_executor(), impl_->AcceptLoop(), asio::detached);
  for (int i = 0; i < std::max(1, impl_->options.io_threads); ++i) {
    impl_->threads.emplace_back([impl = impl_.get()] { impl->io.run(); });
  }
}

HttpServer::~HttpServer() {
  Drain(milliseconds(0));
  for (asio::thread_pool* threads : {&impl_->workers, &impl_->lookups}) {
    threads->stop();
    threads->join();
  }
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
}

uint16_t HttpServer::port() const { return impl_->port; }

bool HttpServer::Drain(milliseconds timeout) {
  impl_->draining = true;
  asio::post(impl_->acceptor.get_executor(), [impl = impl_.get()] {
    error_code ignored;
    impl->acceptor.close(ignored);
  });
  impl_->CloseIdle();
  std::unique_lock lock(impl_->mutex);
  const bool sent = impl_->changed.wait_for(lock, timeout, [this] { return impl_->busy == 0; });
  for (const auto& connection : impl_->connections) connection->Close();
  return sent;
}

}  // namespace peng::server
