// SPDX-License-Identifier: Apache-2.0
#include "server/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace peng::server {
namespace {

using std::chrono::milliseconds;

// A blocking client that sees the bytes.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    timeval limit{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
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

 private:
  int fd_;
  bool connected_ = false;
};

HttpOptions Local() {
  HttpOptions options;
  options.port = 0;
  options.error_body = [](int status, std::string_view message) {
    return std::to_string(status) + " " + std::string(message);
  };
  return options;
}

void Echo(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  reply->Send({.content_type = "text/plain", .body = request.method + " " + request.path + " " + request.body});
}

TEST(Http, AnswersAndKeepsTheConnection) {
  HttpServer server(Local(), Echo);
  Client client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.Send("POST /x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    const std::string reply = client.Until("POST /x abc");
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 OK\r\n")) << reply;
  }
}

TEST(Http, ChunkedBodyAndExpectContinue) {
  HttpServer server(Local(), Echo);
  Client client(server.port());
  client.Send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n");
  EXPECT_TRUE(client.Until("POST /x abcde").ends_with("POST /x abcde"));
}

TEST(Http, HeadHasTheHeadersOnly) {
  HttpServer server(Local(), Echo);
  Client client(server.port());
  client.Send("HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string reply = client.Rest();
  EXPECT_NE(reply.find("Content-Length: 8"), std::string::npos) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\n")) << reply;
}

TEST(Http, StreamsInChunks) {
  HttpServer server(Local(), [](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->Start(200, "text/event-stream", {});
    EXPECT_TRUE(reply->Write("data: 1\n\n"));
    EXPECT_TRUE(reply->Write("data: 2\n\n"));
    reply->Finish();
  });
  Client client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string reply = client.Until("0\r\n\r\n");
  EXPECT_NE(reply.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_NE(reply.find("data: 1\n\n"), std::string::npos);
  EXPECT_NE(reply.find("data: 2\n\n"), std::string::npos);
}

TEST(Http, OldClientsGetAPlainStream) {
  HttpServer server(Local(), [](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->Start(200, "text/event-stream", {});
    reply->Write("data: 1\n\n");
    reply->Finish();
  });
  Client client(server.port());
  client.Send("GET / HTTP/1.0\r\n\r\n");
  const std::string reply = client.Rest();
  EXPECT_TRUE(reply.ends_with("\r\n\r\ndata: 1\n\n")) << reply;
}

TEST(Http, RefusesWhatIsTooLarge) {
  HttpOptions options = Local();
  options.limits.body_bytes = 1000;
  options.limits.header_bytes = 2000;
  options.limits.header_count = 10;
  HttpServer server(options, Echo);
  const auto status = [&](const std::string& request) {
    Client client(server.port());
    client.Send(request);
    return client.Until("\r\n").substr(0, 12);
  };
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n"), "HTTP/1.1 413");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, 'x') +
                   "\r\n0\r\n\r\n"),
            "HTTP/1.1 413");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(3000, 'x') + "\r\n\r\n"), "HTTP/1.1 431");
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 20; ++i) many += "X" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(status(many + "\r\n"), "HTTP/1.1 431");
  const std::string chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status(chunked + "1;x=" + std::string(100'000, 'x')), "HTTP/1.1 400");
  EXPECT_EQ(status(chunked + "0\r\nX: " + std::string(100'000, 'x')), "HTTP/1.1 400");
  EXPECT_EQ(status("NOT HTTP\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1.1 200");
}

TEST(Http, LookupsDoNotWaitForWork) {
  HttpOptions options = Local();
  options.worker_threads = 1;
  std::promise<void> done;
  HttpServer server(options, [wait = done.get_future().share()](const HttpRequest& request, const auto& reply) {
    if (!request.body.empty()) wait.wait();
    Echo(request, reply);
  });
  Client busy(server.port()), probe(server.port());
  busy.Send("POST /work HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
  probe.Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(probe.Until("\r\n").starts_with("HTTP/1.1 200"));
  done.set_value();
  EXPECT_TRUE(busy.Until("\r\n").starts_with("HTTP/1.1 200"));
}

TEST(Http, SlowHeadersAreCutOff) {
  HttpOptions options = Local();
  options.limits.header = std::chrono::seconds(1);
  HttpServer server(options, Echo);
  Client client(server.port());
  client.Send("GET / HT");
  EXPECT_EQ(client.Rest(), "");
}

TEST(Http, PrecheckAnswersBeforeTheBody) {
  HttpOptions options = Local();
  options.precheck = [](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.Header("authorization") == "yes") return std::nullopt;
    return HttpResponse{.status = 401, .body = "no"};
  };
  HttpServer server(options, Echo);
  Client client(server.port());
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(client.Until("\r\n").starts_with("HTTP/1.1 401"));
}

// Both before the first byte of a reply and in the middle of one.
TEST(Http, TellsWhenTheClientLeaves) {
  for (const bool started : {false, true}) {
    std::mutex mutex;
    std::condition_variable changed;
    std::shared_ptr<HttpReply> held;
    bool gone = false;
    HttpServer server(Local(), [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
      std::lock_guard lock(mutex);
      held = reply;
      if (started) {
        reply->Start(200, "text/plain", {});
        reply->Write("begin");
      }
      reply->OnDisconnect([&] {
        std::lock_guard inner(mutex);
        gone = true;
        changed.notify_all();
      });
      changed.notify_all();
    });
    Client client(server.port());
    client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return held != nullptr; }));
    client.Close();
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return gone; }));
    lock.unlock();
    EXPECT_FALSE(started && held->Write("more"));
    held.reset();
  }
}

TEST(Http, GivesUpAReaderThatDoesNotRead) {
  HttpOptions options = Local();
  options.limits.unsent_bytes = 1 << 20;
  std::atomic<bool> gave_up = false, gone = false;
  HttpServer server(options, [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->OnDisconnect([&] { gone = true; });
    reply->Start(200, "text/plain", {});
    const std::string piece(64 << 10, 'x');
    for (int i = 0; i < 2000 && !gave_up; ++i) gave_up = !reply->Write(piece);
  });
  Client client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  for (int i = 0; i < 2000 && !(gave_up && gone); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(gave_up);
  EXPECT_TRUE(gone);
}

TEST(Http, DrainWaitsForRepliesAndClosesIdleConnections) {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<HttpReply> held;
  HttpServer server(Local(), [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    std::lock_guard lock(mutex);
    held = reply;
    changed.notify_all();
  });
  Client idle(server.port());
  Client busy(server.port());
  busy.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return held != nullptr; }));
  }
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    held->Send({.body = "late"});
  });
  EXPECT_TRUE(server.Drain(std::chrono::seconds(20)));
  later.join();
  EXPECT_TRUE(busy.Rest().ends_with("late"));
  EXPECT_EQ(idle.Rest(), "");
  EXPECT_FALSE(Client(server.port()).connected());
  held.reset();
}

TEST(Http, HandlerThatThrowsIsA500) {
  HttpServer server(Local(),
                    [](const HttpRequest&, const std::shared_ptr<HttpReply>&) { throw std::runtime_error("inside"); });
  Client client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string reply = client.Until("500 Internal server error.");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 500"));
  EXPECT_EQ(reply.find("inside"), std::string::npos);
}

TEST(Http, PipelinedRequestsAreAllAnswered) {
  HttpServer server(Local(), Echo);
  Client client(server.port());
  client.Send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(client.Until("GET /1 ").ends_with("GET /1 "));
  EXPECT_TRUE(client.Until("GET /2 ").ends_with("GET /2 "));
}

}  // namespace
}  // namespace peng::server
