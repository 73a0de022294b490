// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/tls.h"

namespace peng::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "POST"
  std::string path;    // the target up to '?', percent-decoded, without the root path
  std::string query;   // behind '?', as sent
  HttpHeaders headers;
  std::string body;
  std::string remote;  // address and port of the peer; "unix" for a Unix socket

  // The value of the first header `name` (any case); empty if there is none.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  HttpHeaders headers = {};
};

// The way back of one request. Thread-safe; may outlive the connection. Either Send once, or Start, any number of
// Write, Finish.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void Send(HttpResponse response) = 0;
  virtual void Start(int status, std::string_view content_type, HttpHeaders headers) = 0;
  // Before Start, when one body carries `streams` at once (the choices of a request): what may be unsent grows with
  // them.
  virtual void CarryStreams(size_t streams) = 0;
  // Queues a piece of the body and returns at once. False once the client is gone, or has fallen so far behind that it
  // is given up: the memory that a slow reader holds is bounded.
  virtual bool Write(std::string_view bytes) = 0;
  virtual void Finish() = 0;
  // `gone` is called at most once, from any thread, when the client leaves before the reply is complete; at once if it
  // has left already.
  virtual void OnDisconnect(std::function<void()> gone) = 0;
};

struct HttpLimits {
  size_t header_bytes = 64 << 10;         // else 431
  size_t header_count = 128;              // else 431
  size_t body_bytes = 10 << 20;           // else 413
  size_t all_body_bytes = 512 << 20;      // of bodies that are being read or parsed; then 503
  size_t unsent_bytes = 1 << 20;          // of a streamed reply; then the reader is given up
  size_t unsent_stream_bytes = 16 << 10;  // the same for each stream that it carries, if that is more in all
  size_t connections = 65536;             // or what the limit of descriptors allows; more are closed at once
  std::chrono::milliseconds idle{75000};  // between requests: longer than the 60 s of common proxies
  std::chrono::seconds header{30};        // for a TLS handshake, and for a whole header
  std::chrono::seconds body{120};         // for a whole body
  std::chrono::seconds write{60};         // for the reader to take one piece of at most 64 KiB
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0 = any free port
  std::string uds;       // path of a Unix socket in place of host and port
  TlsOptions tls;
  std::string root_path;  // taken off the paths of requests, as a proxy puts it in front
  int io_threads = 2;
  int worker_threads = 2;
  HttpLimits limits;
  std::chrono::seconds sse_keep_alive{0};  // an event stream that is silent for so long gets a comment; 0 = never
  // The body of replies that are made before a handler runs: bad syntax, too large, timeout.
  std::function<std::string(int status, std::string_view message)> error_body;
  // Headers that every reply to this request carries, whoever makes the reply.
  std::function<HttpHeaders(const HttpRequest& head)> reply_headers;
  // Looks at a request before its body is read; a value ends it there.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> precheck;
};

// Runs on a worker thread and may block it for as long as parsing and tokenizing take, not for a generation.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<HttpReply> reply)>;

// An HTTP/1.1 server over TCP, TLS or a Unix socket: keep-alive, pipelining (answered in order), chunked bodies both
// ways, HEAD, Expect: 100-continue. A client that closes its side while a request with a body is under way has left;
// one that half-closes after a request without a body is answered.
class HttpServer {
 public:
  // Raises the soft limit of descriptors, binds and starts to accept. Throws base::Error (kUsage) if the address cannot
  // be bound or the TLS files cannot be used.
  HttpServer(HttpOptions options, HttpHandler handler);
  ~HttpServer();  // closes every connection

  uint16_t port() const;
  // "http://127.0.0.1:8000", "https://[::]:8000", "unix:/run/peng.sock"
  std::string address() const;
  // Replies end their connection from now on, and idle connections are closed; new ones are still accepted.
  void StopKeepAlive();
  // Stops accepting, closes idle connections, and waits until the replies under way are sent or `timeout` is over.
  // True if all were sent.
  bool Drain(std::chrono::milliseconds timeout);
  // The requests whose handler has not returned, as "POST /v1/completions", once none is left or `timeout` is over. The
  // destructor waits for them without end.
  std::vector<std::string> AwaitHandlers(std::chrono::milliseconds timeout);
  // New connections use the TLS files as they are now. Throws, and keeps what it had, if they cannot be used.
  void ReloadTls();
  // For an exit that runs no destructors.
  void RemoveSocketFile() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace peng::server
