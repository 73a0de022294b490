// SPDX-License-Identifier: Apache-2.0
// A part of http.cc: a connection's bytes, over TCP or a Unix socket, plain or in TLS, each operation with a deadline.
#pragma once

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <chrono>
#include <memory>
#include <utility>

namespace peng::server {

inline auto Await(boost::system::error_code& error) {
  return boost::asio::redirect_error(boost::asio::use_awaitable, error);
}

class HttpStream {
 public:
  using Protocol = boost::asio::generic::stream_protocol;
  using Plain = boost::beast::basic_stream<Protocol>;
  using executor_type = Plain::executor_type;
  using ErrorCode = boost::system::error_code;

  // `tls` null: plain.
  HttpStream(Protocol::socket socket, const std::shared_ptr<SSL_CTX>& tls) : plain_(std::move(socket)) {
    if (tls) tls_ = std::make_unique<Tls>(plain_, SSL_new(tls.get()));
  }

  executor_type get_executor() noexcept { return plain_.get_executor(); }
  Protocol::socket& socket() { return plain_.socket(); }
  void expires_after(std::chrono::nanoseconds time) { plain_.expires_after(time); }
  void expires_never() { plain_.expires_never(); }
  // What comes over the network itself, in TLS or not.
  Plain& raw() { return plain_; }
  // Ends every operation under way.
  void Close() { plain_.close(); }

  boost::asio::awaitable<bool> Handshake() {
    ErrorCode error;
    if (tls_) co_await tls_->async_handshake(boost::asio::ssl::stream_base::server, Await(error));
    co_return !error;
  }

  // Says that nothing more will be written.
  boost::asio::awaitable<void> ShutdownSend() {
    ErrorCode error;
    if (tls_) {
      // A client that does not answer the notice must not hold the connection.
      plain_.expires_after(std::chrono::seconds(1));
      co_await tls_->async_shutdown(Await(error));
    }
    socket().shutdown(Protocol::socket::shutdown_send, error);
  }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(ErrorCode, size_t)>(
        [this](auto handler, const Buffers& b) {
          if (tls_) {
            tls_->async_read_some(b, std::move(handler));
          } else {
            plain_.async_read_some(b, std::move(handler));
          }
        },
        token, buffers);
  }

  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(ErrorCode, size_t)>(
        [this](auto handler, const Buffers& b) {
          if (tls_) {
            tls_->async_write_some(b, std::move(handler));
          } else {
            plain_.async_write_some(b, std::move(handler));
          }
        },
        token, buffers);
  }

 private:
  using Tls = boost::asio::ssl::stream<Plain&>;

  Plain plain_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace peng::server
