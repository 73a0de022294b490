// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: the other side of an HTTP connection.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace peng::server {

// A blocking client that sees the bytes.
class Client {
 public:
  explicit Client(uint16_t port) : Client(V4(port)) {}
  explicit Client(const std::string& path) : Client(Unix(path)) {}
  static Client OverV6(uint16_t port) { return Client(V6(port)); }
  Client() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {}  // to be connected later
  ~Client() { Close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void Send(const std::string& bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Reads until `end` was seen or the server closes.
  std::string Until(const std::string& end) {
    std::string text;
    char byte = 0;
    while (text.size() < end.size() || !text.ends_with(end)) {
      if (::recv(fd_, &byte, 1, 0) != 1) break;
      text += byte;
    }
    return text;
  }
  std::string Rest() {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0;) text.append(buffer, static_cast<size_t>(n));
    return text;
  }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void Connect(uint16_t port) { Connect(V4(port)); }
  void HalfClose() { ::shutdown(fd_, SHUT_WR); }

 private:
  struct Address {
    sockaddr_storage bytes = {};
    socklen_t size = 0;
  };
  template <typename T>
  static Address Of(const T& address) {
    Address out;
    std::memcpy(&out.bytes, &address, sizeof(address));
    out.size = sizeof(address);
    return out;
  }
  static Address V4(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return Of(address);
  }
  static Address V6(uint16_t port) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_loopback;
    return Of(address);
  }
  static Address Unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    return Of(address);
  }
  explicit Client(const Address& address) : fd_(::socket(address.bytes.ss_family, SOCK_STREAM, 0)) { Connect(address); }
  void Connect(const Address& address) {
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0;
    timeval limit{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }

  int fd_;
  bool connected_ = false;
};

}  // namespace peng::server
