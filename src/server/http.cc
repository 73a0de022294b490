// SPDX-License-Identifier: Apache-2.0
#include "server/http.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "base/ascii.h"
#include "base/error.h"
#include "base/log.h"
#include "server/http_exchange-inl.h"
#include "server/http_stream-inl.h"
#include "server/http_target.h"
#include "server/listen.h"

namespace peng::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Socket = HttpStream::Protocol::socket;
using Acceptor = asio::basic_socket_acceptor<HttpStream::Protocol>;

constexpr std::string_view kSseComment = ": keep-alive\n\n";  // as vLLM's
// What a reader has to take within the time for writes.
constexpr size_t kWriteBytes = 64 << 10;

bool SameName(std::string_view a, std::string_view b) { return beast::iequals(a, b); }

template <typename Message>
void SetHead(Message& message, const HttpResponse& response, const HttpHeaders& more, bool keep_alive) {
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::server, "peng");
  if (!response.content_type.empty()) message.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  for (const auto& [name, value] : more) message.insert(name, value);
  message.keep_alive(keep_alive);
}

bool PeerClosed(Socket& socket) {
  pollfd fd{socket.native_handle(), POLLRDHUP, 0};
  return ::poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

// Returns when the peer has closed its side. Bytes of a next, pipelined request are left where they are.
asio::awaitable<void> AwaitPeerClosed(Socket& socket) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  error_code error;
  co_await socket.async_wait(Socket::wait_read, Await(error));
  while (!error && !PeerClosed(socket)) {
    timer.expires_after(milliseconds(200));
    co_await timer.async_wait(Await(error));
  }
  // Cancelled because the reply is complete: the other side of the || has already won.
  if (error == asio::error::operation_aborted) {
    timer.expires_at(steady_clock::time_point::max());
    co_await timer.async_wait(Await(error));
  }
}

// The requests whose handler is to run or runs.
class WorkList {
 public:
  // One of them, for as long as it lives.
  class Entry {
   public:
    Entry(WorkList& list, const HttpRequest& request) : list_(list) {
      std::string name = base::Printable(request.method, 16) + " " + base::Printable(request.path, 128);
      std::lock_guard lock(list_.mutex_);
      at_ = list_.names_.insert(std::move(name));
    }
    ~Entry() {
      std::lock_guard lock(list_.mutex_);
      list_.names_.erase(at_);
      list_.changed_.notify_all();
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    WorkList& list_;
    std::multiset<std::string>::iterator at_;
  };

  std::vector<std::string> AwaitEmpty(milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return names_.empty(); });
    return {names_.begin(), names_.end()};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<std::string> names_;
};

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
        io(std::max(1, options.io_threads)) {
    options.root_path = NormalRootPath(options.root_path);
  }

  void Listen();
  std::string Address() const;
  asio::awaitable<void> AcceptLoop(Acceptor& acceptor);
  asio::awaitable<void> PauseAccepting(error_code error);
  void CloseIdle();
  std::shared_ptr<SSL_CTX> Tls() {
    std::lock_guard lock(mutex);
    return tls;
  }

  HttpOptions options;
  HttpHandler handler;
  WorkList at_work;
  asio::thread_pool workers;
  asio::thread_pool lookups;  // requests without a body: a health probe must not wait for long prompts to be tokenized
  asio::io_context io;
  std::vector<ListeningSocket> sockets;
  std::vector<std::unique_ptr<Acceptor>> acceptors;  // one for each of sockets, on a strand of its own
  std::vector<std::thread> threads;
  std::atomic<bool> keep_alive{true};
  std::atomic<size_t> all_body_bytes{0};
  std::atomic<steady_clock::rep> warned_at{0};

  class Connection;
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<SSL_CTX> tls;
  std::set<std::shared_ptr<Connection>> connections;
  int busy = 0;  // connections with a request under way
};

namespace {

// Bytes of one request's body while they are in memory, out of what all requests may hold.
class BodyShare {
 public:
  BodyShare(std::atomic<size_t>& all, size_t limit) : all_(all), limit_(limit) {}
  ~BodyShare() { Release(); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  // False if there is no room for so many.
  bool Grow(size_t bytes) {
    const size_t more = bytes - mine_;
    if ((all_ += more) > limit_) {
      all_ -= more;
      return false;
    }
    mine_ = bytes;
    return true;
  }
  void Release() { all_ -= std::exchange(mine_, 0); }

 private:
  std::atomic<size_t>& all_;
  const size_t limit_;
  size_t mine_ = 0;
};

// Why the body's end is not told beyond doubt (RFC 9112, 6.1 and 6.3): what a proxy in front may read in another way
// could carry a second request past it. nullopt for a request without transfer coding and for one that is chunked.
std::optional<std::pair<int, const char*>> TransferFault(const http::request<http::string_body>& message) {
  const size_t count = message.count(http::field::transfer_encoding);
  if (count == 0) return std::nullopt;
  if (message.version() < 11) return {{400, "Transfer-Encoding is not part of HTTP/1.0."}};
  if (message.count(http::field::content_length) > 0) return {{400, "Transfer-Encoding and Content-Length together."}};
  const std::string_view coding = message[http::field::transfer_encoding];
  if (count == 1 && SameName(coding, "chunked")) return std::nullopt;
  bool chunked_only = true;
  for (std::string_view rest = coding; chunked_only && !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    chunked_only = SameName(base::TrimSpace(one), "chunked");
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  chunked_only = chunked_only && !coding.empty();
  if (count > 1 || chunked_only) return {{400, "Transfer-Encoding is given more than once."}};
  return {{501, "Transfer-Encoding other than chunked is not supported."}};
}

}  // namespace

// One client: requests one after another, on a strand of its own.
class HttpServer::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& impl, Socket socket)
      : impl_(impl),
        limits_(impl.options.limits),
        stream_(std::move(socket), impl.Tls()),
        buffer_(limits_.header_bytes + kReadBytes) {}

  asio::awaitable<void> Run() {
    try {
      stream_.expires_after(limits_.header);
      if (co_await stream_.Handshake()) {
        for (;;) {  // GCC 12 does not come back from a co_await behind && that was not reached
          if (!co_await AwaitFirstByte()) break;
          if (!co_await ServeOne()) break;
          buffer_.shrink_to_fit();
        }
      }
      co_await stream_.ShutdownSend();
      if (buffer_.size() > 0) co_await DiscardRest();
    } catch (const std::exception& e) {
      base::LogDebug("connection closed: {}", base::Printable(e.what()));
    }
    SetBusy(false);
    Detach();
    stream_.Close();
    std::lock_guard lock(impl_.mutex);
    impl_.connections.erase(shared_from_this());
    impl_.changed.notify_all();
  }

  void CloseIfIdle() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      error_code ignored;
      if (!self->busy_) self->stream_.socket().shutdown(Socket::shutdown_receive, ignored);
    });
  }

  // On the strand, or once no thread runs it any more.
  void Detach() {
    if (const auto exchange = exchange_.lock()) exchange->Detach();
  }

  void Close() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->stream_.Close(); });
  }

 private:
  using Body = http::string_body;
  using Parser = http::request_parser<Body>;
  // Read at once. The buffer holds a header and this much: chunk extensions and trailers, which no limit of the parser
  // counts, end there.
  static constexpr size_t kReadBytes = 64 << 10;
  // What an idle connection holds.
  static constexpr size_t kFirstBytes = 512;
  // A client that has sent so much of a body is one that sends, not one that only holds a connection.
  static constexpr size_t kLargeBody = 4096;

  // False when the connection is to be closed.
  asio::awaitable<bool> ServeOne() {
    SetBusy(true);
    extra_headers_.clear();
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    parser.body_limit(boost::none);  // ReadBody has it, once it is known who asks
    error_code error;
    stream_.expires_after(limits_.header);
    co_await http::async_read_header(stream_, buffer_, parser, Await(error));
    if (error) co_return co_await RefuseBroken(error);

    const http::request<Body>& message = parser.get();
    const bool has_body = !parser.is_done();
    const bool head_only = message.method() == http::verb::head;
    version_ = message.version();
    keep_alive_ = message.keep_alive() && impl_.keep_alive;
    auto request = Head(message);
    if (!request) co_return co_await Refuse(400, "Malformed request target or Host header.");
    if (request->headers.size() > limits_.header_count) co_return co_await Refuse(431, "Too many header fields.");
    if (const auto fault = TransferFault(message)) co_return co_await Refuse(fault->first, fault->second);
    if (impl_.options.reply_headers) extra_headers_ = impl_.options.reply_headers(*request);
    if (impl_.options.precheck) {
      if (auto refusal = impl_.options.precheck(*request)) {
        if (has_body) keep_alive_ = false;
        co_await SendWhole(*refusal, head_only);
        if (has_body) co_await DiscardRest();
        co_return Done();
      }
    }
    auto share = std::make_shared<BodyShare>(impl_.all_body_bytes, limits_.all_body_bytes);
    if (has_body) {
      const bool read = co_await ReadBody(parser, *share, request->Header("Expect"));
      if (!read) co_return false;
    }
    request->body = std::move(parser.get().body());
    co_await Handle(std::move(*request), std::move(share), head_only);
    co_return Done();
  }

  bool Done() {
    SetBusy(false);
    return keep_alive_ && impl_.keep_alive;
  }

  void SetBusy(bool busy) {
    if (busy_ == busy) return;
    busy_ = busy;
    std::lock_guard lock(impl_.mutex);
    impl_.busy += busy ? 1 : -1;
    impl_.changed.notify_all();
  }

  // Waits for a next request. Empty lines between requests are no part of one.
  asio::awaitable<bool> AwaitFirstByte() {
    error_code error;
    stream_.expires_after(limits_.idle);
    while (!error) {
      while (buffer_.size() > 0) {
        const char first = *static_cast<const char*>(buffer_.data().data());
        if (first != '\r' && first != '\n') co_return true;
        buffer_.consume(1);
      }
      const size_t n = co_await stream_.async_read_some(buffer_.prepare(kFirstBytes), Await(error));
      buffer_.commit(n);
    }
    co_return false;
  }

  // nullopt for a target or Host header that is none.
  std::optional<HttpRequest> Head(const http::request<Body>& message) {
    const std::string_view sent(message.target().data(), message.target().size());
    auto target = ParseTarget(sent, impl_.options.root_path);
    const size_t hosts = message.count(http::field::host);
    if (!target || hosts > 1 || (hosts == 0 && message.version() >= 11)) return std::nullopt;
    HttpRequest request;
    request.method = std::string(message.method_string());
    request.path = std::move(target->path);
    request.query = std::move(target->query);
    for (const auto& field : message) {
      request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    request.remote = PeerName(stream_.socket().native_handle());
    return request;
  }

  // False once it was refused.
  asio::awaitable<bool> ReadBody(Parser& parser, BodyShare& share, std::string_view expect) {
    error_code error;
    if (parser.content_length().value_or(0) > limits_.body_bytes) {
      co_return co_await RefuseBroken(make_error_code(http::error::body_limit));
    }
    parser.body_limit(limits_.body_bytes);
    if (SameName(expect, "100-continue")) co_await SendContinue();
    stream_.expires_after(limits_.body);
    while (!parser.is_done()) {
      co_await http::async_read_some(stream_, buffer_, parser, Await(error));
      if (error) co_return co_await RefuseBroken(error);
      if (!share.Grow(parser.get().body().size())) {
        share.Release();  // before anyone hears of the refusal
        extra_headers_.emplace_back("Retry-After", "1");
        co_return co_await Refuse(503, "Too many large requests at once.");
      }
      // As much is read at once as the buffer has room for: half a kilobyte at first.
      if (parser.get().body().size() >= kLargeBody) buffer_.reserve(kReadBytes);
    }
    co_return true;
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
    co_await stream_.ShutdownSend();
    std::string sink(kReadBytes, '\0');
    stream_.expires_after(std::chrono::seconds(5));
    for (size_t total = 0; !error && total < 8 * limits_.body_bytes;) {
      total += co_await stream_.raw().async_read_some(asio::buffer(sink), Await(error));
    }
    buffer_.clear();
  }

  asio::awaitable<void> SendContinue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    error_code error;
    stream_.expires_after(limits_.write);
    co_await asio::async_write(stream_, asio::buffer(kContinue), Await(error));
  }

  asio::awaitable<void> SendWhole(const HttpResponse& response, bool head_only) {
    http::response<http::empty_body> message;
    message.version(version_);
    SetHead(message, response, extra_headers_, keep_alive_);
    if (response.status != 204) message.content_length(response.body.size());
    error_code error;
    if (head_only || response.body.empty()) {
      co_await SendHeader(message, error);
    } else {
      // In one write with the header, if it is short.
      std::string bytes = Serialized(message);
      const size_t n = std::min(response.body.size(), kWriteBytes);
      bytes.append(response.body, 0, n);
      co_await WriteAll(bytes, error);
      co_await WriteAll(std::string_view(response.body).substr(n), error);
    }
    if (error) keep_alive_ = false;
  }

  asio::awaitable<void> SendHeader(http::response<http::empty_body>& message, error_code& error) {
    const std::string bytes = Serialized(message);
    co_await WriteAll(bytes, error);
  }

  static std::string Serialized(const http::response<http::empty_body>& message) {
    std::ostringstream text;
    text << message.base();
    return std::move(text).str();
  }

  asio::awaitable<void> Handle(HttpRequest request, std::shared_ptr<BodyShare> share, bool head_only) {
    using namespace asio::experimental::awaitable_operators;  // NOLINT
    auto exchange = std::make_shared<Exchange>(stream_.get_executor(), limits_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->stream_.Close();
    });
    exchange_ = exchange;
    stream_.expires_never();
    const bool lookup = request.body.empty();
    auto at_work = std::make_unique<WorkList::Entry>(impl_.at_work, request);
    asio::post(lookup ? impl_.lookups : impl_.workers,
               [&impl = impl_, exchange, request = std::move(request), share = std::move(share),
                at_work = std::move(at_work)]() mutable {
                 try {
                   impl.handler(std::move(request), exchange);
                 } catch (const std::exception& e) {
                   base::LogError("request failed: {}", base::Printable(e.what()));
                   HttpResponse failed{.status = 500};
                   if (impl.options.error_body) failed.body = impl.options.error_body(500, "Internal server error.");
                   exchange->Send(std::move(failed));
                 }
               });
    bool sent = false;
    if (lookup) {
      sent = co_await SendReply(exchange, head_only);
    } else {
      const auto outcome = co_await (SendReply(exchange, head_only) || AwaitPeerClosed(stream_.socket()));
      sent = outcome.index() == 0 && std::get<0>(outcome);
    }
    if (sent) {
      exchange->MarkComplete();
    } else {
      keep_alive_ = false;
      exchange->MarkGone();
    }
    exchange->Detach();
  }

  // True once the whole reply is out.
  asio::awaitable<bool> SendReply(std::shared_ptr<Exchange> exchange, bool head_only) {
    Exchange::Piece piece = co_await exchange->Next(steady_clock::time_point::max());
    if (exchange->whole()) {
      co_await SendWhole(exchange->response(), head_only);
      co_return true;
    }
    const bool chunked = version_ >= 11;
    if (!chunked) keep_alive_ = false;
    http::response<http::empty_body> message;
    message.version(version_);
    SetHead(message, exchange->response(), extra_headers_, keep_alive_);
    if (chunked) message.chunked(true);
    error_code error;
    co_await SendHeader(message, error);
    const bool comments =
        impl_.options.sse_keep_alive.count() > 0 && exchange->response().content_type.starts_with("text/event-stream");
    while (!error) {
      if (piece.too_slow) co_return false;
      if (piece.idle) piece.bytes = kSseComment;
      if (!piece.bytes.empty() && !head_only) co_await WritePiece(piece.bytes, chunked, error);
      if (piece.last || error) break;
      stream_.expires_never();
      const auto now = steady_clock::now();
      piece = co_await exchange->Next(comments ? now + impl_.options.sse_keep_alive : steady_clock::time_point::max());
    }
    if (!error && chunked && !head_only) co_await WriteAll("0\r\n\r\n", error);
    co_return !error;
  }

  asio::awaitable<void> WritePiece(std::string bytes, bool chunked, error_code& error) {
    if (chunked) {
      char size[24];
      const int n = std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
      bytes.insert(0, size, static_cast<size_t>(n));
      bytes += "\r\n";
    }
    co_await WriteAll(bytes, error);
  }

  // In pieces with a deadline each: a slow reader that goes on reading is served, one that has stopped is not.
  asio::awaitable<void> WriteAll(std::string_view bytes, error_code& error) {
    for (; !error && !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kWriteBytes))) {
      stream_.expires_after(limits_.write);
      co_await asio::async_write(stream_, asio::buffer(bytes.data(), std::min(bytes.size(), kWriteBytes)),
                                 Await(error));
    }
  }

  Impl& impl_;
  const HttpLimits& limits_;
  HttpStream stream_;
  beast::flat_buffer buffer_;
  HttpHeaders extra_headers_;
  std::weak_ptr<Exchange> exchange_;  // of the request under way
  unsigned version_ = 11;
  bool keep_alive_ = false;
  bool busy_ = false;
};

void HttpServer::Impl::Listen() {
  if (options.tls.enabled()) tls = MakeTlsContext(options.tls);
  if (options.uds.empty()) {
    sockets = ListenTcp(options.host, options.port);
  } else {
    sockets.push_back(ListenUnix(options.uds));
  }
  const HttpStream::Protocol protocol(options.uds.empty() ? AF_INET : AF_UNIX, 0);
  for (ListeningSocket& socket : sockets) {
    acceptors.push_back(std::make_unique<Acceptor>(asio::make_strand(io), protocol, socket.TakeFd()));
    asio::co_spawn(acceptors.back()->get_executor(), AcceptLoop(*acceptors.back()), asio::detached);
  }
}

std::string HttpServer::Impl::Address() const {
  if (!options.uds.empty()) return "unix:" + options.uds;
  const bool v6 = options.host.find(':') != std::string::npos && options.host.front() != '[';
  const std::string host = v6 ? "[" + options.host + "]" : options.host;
  return (options.tls.enabled() ? "https://" : "http://") + host + ":" + std::to_string(sockets.front().port());
}

// Out of descriptors or memory: the clients that wait are taken when others have gone, without spinning until then.
asio::awaitable<void> HttpServer::Impl::PauseAccepting(error_code error) {
  const auto now = steady_clock::now().time_since_epoch().count();
  const auto minute = steady_clock::duration(std::chrono::minutes(1)).count();
  if (const auto last = warned_at.load(); last == 0 || now - last > minute) {
    warned_at = now;
    base::LogWarning("cannot accept connections: {}; raise the limit of open files (ulimit -n)", error.message());
  }
  asio::steady_timer pause(co_await asio::this_coro::executor, milliseconds(50));
  co_await pause.async_wait(Await(error));
}

asio::awaitable<void> HttpServer::Impl::AcceptLoop(Acceptor& acceptor) {
  while (acceptor.is_open()) {
    error_code error;
    Socket socket = co_await acceptor.async_accept(asio::make_strand(io), Await(error));
    if (error == asio::error::operation_aborted || !acceptor.is_open()) co_return;
    if (error == asio::error::connection_aborted) continue;  // it has gone while it waited
    if (error) {
      co_await PauseAccepting(error);
      continue;
    }
    if (options.uds.empty()) TuneConnection(socket.native_handle());
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

// Thousands of streams need as many descriptors; the soft limit of most systems is 1024. Returns how many connections
// there is room for beside the model's files and the rest.
size_t RaiseDescriptorLimit() {
  constexpr rlim_t kOthers = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return SIZE_MAX;
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur > 2 * kOthers ? limit.rlim_cur - kOthers : limit.rlim_cur / 2;
}

}  // namespace

HttpServer::HttpServer(HttpOptions options, HttpHandler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {
  size_t& connections = impl_->options.limits.connections;
  connections = std::min(connections, RaiseDescriptorLimit());
  impl_->Listen();
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
  for (const auto& connection : impl_->connections) connection->Detach();
}

uint16_t HttpServer::port() const { return impl_->sockets.front().port(); }

std::string HttpServer::address() const { return impl_->Address(); }

void HttpServer::StopKeepAlive() {
  impl_->keep_alive = false;
  impl_->CloseIdle();
}

bool HttpServer::Drain(milliseconds timeout) {
  impl_->keep_alive = false;
  for (const auto& acceptor : impl_->acceptors) {
    asio::post(acceptor->get_executor(), [acceptor = acceptor.get()] {
      error_code ignored;
      acceptor->close(ignored);
    });
  }
  impl_->CloseIdle();
  std::unique_lock lock(impl_->mutex);
  const bool sent = impl_->changed.wait_for(lock, timeout, [this] { return impl_->busy == 0; });
  for (const auto& connection : impl_->connections) connection->Close();
  return sent;
}

std::vector<std::string> HttpServer::AwaitHandlers(milliseconds timeout) { return impl_->at_work.AwaitEmpty(timeout); }

void HttpServer::ReloadTls() {
  if (!impl_->options.tls.enabled()) return;
  auto fresh = MakeTlsContext(impl_->options.tls);
  std::lock_guard lock(impl_->mutex);
  impl_->tls = std::move(fresh);
}

void HttpServer::RemoveSocketFile() const {
  for (const ListeningSocket& socket : impl_->sockets) socket.RemoveFile();
}

}  // namespace peng::server
