// SPDX-License-Identifier: Apache-2.0
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace peng::server {
namespace {

constexpr int kBacklog = 4096;
constexpr int kType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int Take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string Reason(int error = errno) { return std::generic_category().message(error); }

bool SetFlag(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const bool v6 = address.ss_family == AF_INET6;
  return ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                  : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

void SetPort(sockaddr* address, uint16_t port) {
  if (address->sa_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
}

// nullopt, with errno in `error`, if the address cannot be bound.
std::optional<ListeningSocket> Listen(const addrinfo& info, uint16_t port, int* error) {
  Fd fd(::socket(info.ai_family, kType, 0));
  if (fd.get() < 0) {
    *error = errno;
    return std::nullopt;
  }
  SetFlag(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (info.ai_family == AF_INET6) {
    const bool any = IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<sockaddr_in6*>(info.ai_addr)->sin6_addr);
    SetFlag(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, any ? 0 : 1);
  }
  SetPort(info.ai_addr, port);
  if (::bind(fd.get(), info.ai_addr, info.ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    *error = errno;
    return std::nullopt;
  }
  const uint16_t bound = PortOf(fd.get());
  return ListeningSocket(fd.Take(), bound);
}

[[noreturn]] void RefusePath(const std::string& path, const std::string& what, const std::string& action) {
  throw base::Error(base::ErrorKind::kUsage, "--uds " + base::Printable(path), what, action);
}

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path) || path.find('\0') != std::string::npos) {
    RefusePath(path, "is no path of 1 to " + std::to_string(sizeof(address.sun_path) - 1) + " bytes",
               "choose a shorter path");
  }
  ::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// A socket file that nobody listens on is what a killed server leaves.
void RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return;  // bind says what is wrong, if anything is
  if (!S_ISSOCK(status.st_mode)) RefusePath(path, "exists and is no socket", "remove it, or choose another path");
  const Fd probe(::socket(AF_UNIX, kType, 0));
  const bool taken = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (taken || errno == EAGAIN) RefusePath(path, "another server listens there", "choose another path");
  if (errno != ECONNREFUSED || ::unlink(path.c_str()) != 0) {
    RefusePath(path, "cannot be replaced: " + Reason(), "remove it, or choose another path");
  }
}

}  // namespace

ListeningSocket::~ListeningSocket() {
  if (fd_ >= 0) ::close(fd_);
  RemoveFile();
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      port_(other.port_),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

int ListeningSocket::TakeFd() { return std::exchange(fd_, -1); }

void ListeningSocket::RemoveFile() const {
  struct stat status{};
  if (path_.empty() || ::lstat(path_.c_str(), &status) != 0) return;
  if (status.st_dev == device_ && status.st_ino == inode_) ::unlink(path_.c_str());
}

std::vector<ListeningSocket> ListenTcp(const std::string& host, uint16_t port) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), "0", &hints, &found) != 0) {
    throw base::Error(base::ErrorKind::kUsage, "--host " + base::Printable(host), "is not an address of this machine",
                      "use 127.0.0.1, 0.0.0.0, ::1 or ::");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<ListeningSocket> sockets;
  int error = 0;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    auto socket = Listen(*info, sockets.empty() ? port : sockets.front().port(), &error);
    if (socket) {
      sockets.push_back(std::move(*socket));
    } else if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) {  // "localhost" on a machine without IPv6 is fine
      sockets.clear();
      break;
    }
  }
  if (sockets.empty()) {
    throw base::Error(base::ErrorKind::kUsage, base::Printable(host) + ":" + std::to_string(port),
                      "cannot listen: " + Reason(error), "choose another --host or --port");
  }
  return sockets;
}

ListeningSocket ListenUnix(const std::string& path) {
  const sockaddr_un address = UnixAddress(path);
  RemoveStale(path, address);
  Fd fd(::socket(AF_UNIX, kType, 0));
  struct stat status{};
  // Nobody can connect before listen(), so there is no moment at which the mode is wider.
  if (fd.get() < 0 || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::lstat(path.c_str(), &status) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    RefusePath(path, "cannot listen: " + Reason(), "choose another path");
  }
  ListeningSocket socket(fd.Take(), 0);
  socket.path_ = path;
  socket.device_ = status.st_dev;
  socket.inode_ = status.st_ino;
  return socket;
}

void TuneConnection(int fd) {
  SetFlag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetFlag(fd, SOL_SOCKET, SO_SNDBUF, 256 << 10);
  SetFlag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetFlag(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  SetFlag(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  SetFlag(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

std::string PeerName(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return std::string(text) + ":" + std::to_string(ntohs(v4->sin_port));
  }
  if (address.ss_family != AF_INET6) return "unix";
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  const std::string port = std::to_string(ntohs(v6->sin6_port));
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    ::inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text, sizeof(text));
    return std::string(text) + ":" + port;
  }
  ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  return "[" + std::string(text) + "]:" + port;
}

}  // namespace peng::server
