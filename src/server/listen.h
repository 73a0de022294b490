// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace peng::server {

// A bound, listening, non-blocking stream socket. The destructor closes it and removes the file of a Unix socket.
class ListeningSocket {
 public:
  ListeningSocket(int fd, uint16_t port) : fd_(fd), port_(port) {}
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ListeningSocket(const ListeningSocket&) = delete;

  uint16_t port() const { return port_; }  // 0 for a Unix socket
  // The descriptor, which is the caller's from now on; the file stays this object's.
  int TakeFd();
  // Removes the file of a Unix socket, if it is still this socket's. From any thread.
  void RemoveFile() const;

 private:
  friend ListeningSocket ListenUnix(const std::string& path);

  int fd_;
  uint16_t port_;
  std::string path_;
  uint64_t device_ = 0, inode_ = 0;
};

// One socket for each address that `host` stands for: a name may have an IPv4 and an IPv6 one. "::" takes IPv4 as well.
// Brackets around an IPv6 address are allowed. Port 0 is any free one, the same for all. Throws base::Error (kUsage).
std::vector<ListeningSocket> ListenTcp(const std::string& host, uint16_t port);

// Mode 0600. A file that a dead server left behind is replaced; anything else at `path` is an error (kUsage).
ListeningSocket ListenUnix(const std::string& path);

// Settings of an accepted connection: no delay for small writes, a bound on what the kernel keeps for a reader that
// does not read, and probes that notice a peer that has vanished.
void TuneConnection(int fd);

// "127.0.0.1:40000", "[::1]:40000"; "unix" for a Unix socket, "" if the peer has gone.
std::string PeerName(int fd);

}  // namespace peng::server
