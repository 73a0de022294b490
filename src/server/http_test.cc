// SPDX-License-Identifier: Apache-2.0
#include "server/http.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/options.h"
#include "server/listen.h"
#include "server/test_http.h"

namespace peng::server {
namespace {

using std::chrono::milliseconds;

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

// What a proxy in front may read in another way is refused, and what follows on the connection is not read.
TEST(Http, TransferCodingsOtherThanChunkedEndTheConnection) {
  HttpServer server(Local(), Echo);
  const std::string chunks = "2\r\nab\r\n0\r\n\r\n", next = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
  struct Case {
    const char* version;
    const char* fields;
    const char* status;
  };
  for (const Case& c : std::vector<Case>{
           {"1.1", "Transfer-Encoding: identity\r\n", "501"},
           {"1.1", "Transfer-Encoding: gzip\r\n", "501"},
           {"1.1", "Transfer-Encoding: xchunked\r\n", "501"},
           {"1.1", "Transfer-Encoding: chunked, identity\r\n", "501"},
           {"1.1", "Transfer-Encoding: gzip, chunked\r\n", "501"},
           {"1.1", "Transfer-Encoding: \"chunked\"\r\n", "501"},
           {"1.1", "Transfer-Encoding: chunked;q=1\r\n", "501"},
           {"1.1", "Transfer-Encoding:\r\n", "501"},
           {"1.1", "Transfer-Encoding: chunked, chunked\r\n", "400"},
           {"1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "400"},
           {"1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "400"},
           {"1.1", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "400"},
           {"1.1", "Transfer-Encoding: chunked\r\nContent-Length: 12\r\n", "400"},
           {"1.1", "Content-Length: 12\r\nTransfer-Encoding: chunked\r\n", "400"},
           {"1.1", "Content-Length: 12\r\nTransfer-Encoding: identity\r\n", "400"},
           {"1.1", "Content-Length: 0\r\nTransfer-Encoding: gzip\r\n", "400"},
           {"1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", "400"},
           {"1.0", "Connection: keep-alive\r\nTransfer-Encoding: identity\r\n", "400"},
       }) {
    for (const char* method : {"POST", "GET"}) {
      Client client(server.port());
      client.Send(std::string(method) + " /x HTTP/" + c.version + "\r\nHost: a\r\n" + c.fields + "\r\n" + chunks +
                  next);
      client.HalfClose();
      const std::string reply = client.Rest();
      EXPECT_EQ(reply.substr(9, 3), c.status) << method << " " << c.version << " " << c.fields << reply;
      EXPECT_EQ(reply.find("Server:", reply.find("Server:") + 1), std::string::npos) << c.fields << reply;
      EXPECT_EQ(reply.find("smuggled"), std::string::npos) << c.fields << reply;
      EXPECT_EQ(reply.find("keep-alive"), std::string::npos) << c.fields << reply;
      EXPECT_EQ(reply.find("Connection: close") != std::string::npos, c.version == std::string("1.1")) << reply;
    }
  }
  for (const char* spelling : {"chunked", "Chunked", "CHUNKED", " chunked "}) {
    Client client(server.port());
    client.Send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:" + std::string(spelling) + "\r\n\r\n" + chunks);
    EXPECT_TRUE(client.Until("POST /x ab").ends_with("POST /x ab")) << spelling;
  }
}

TEST(Http, TellsWhichHandlersStillRun) {
  std::promise<void> done;
  HttpServer server(Local(), [wait = done.get_future().share()](const HttpRequest& request, const auto& reply) {
    if (!request.body.empty()) wait.wait();
    Echo(request, reply);
  });
  EXPECT_TRUE(server.AwaitHandlers(milliseconds(0)).empty());
  Client first(server.port()), second(server.port());
  first.Send("POST /v1/work HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
  second.Send("POST /v1/more HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
  for (int i = 0; i < 2000 && server.AwaitHandlers(milliseconds(0)).size() < 2; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(server.AwaitHandlers(milliseconds(1)), (std::vector<std::string>{"POST /v1/more", "POST /v1/work"}));
  EXPECT_FALSE(server.Drain(milliseconds(0)));
  EXPECT_EQ(server.AwaitHandlers(milliseconds(1)).size(), 2U) << "their clients were closed, they go on";
  done.set_value();
  EXPECT_TRUE(server.AwaitHandlers(std::chrono::seconds(20)).empty());
}

// Common proxies use a connection again for 60 s: the server's end must not come first.
TEST(Http, KeepAliveOutlivesThatOfProxies) {
  EXPECT_GT(HttpLimits().idle, std::chrono::seconds(60));
  EXPECT_GT(base::ServeOptions().timeout_keep_alive, 60);
}

TEST(Http, AClientThatStallsInTheTlsHandshakeIsClosed) {
  HttpOptions options = Local();
  options.limits.header = std::chrono::seconds(1);
  const std::string folder = PENG_SOURCE_DIR "/tests/data/tls/";
  options.tls.certfile = folder + "server.pem";
  options.tls.keyfile = folder + "server.key";
  HttpServer server(options, Echo);
  Client silent(server.port()), begun(server.port());
  begun.Send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));  // of a ClientHello
  EXPECT_EQ(silent.Rest(), "");
  EXPECT_EQ(begun.Rest(), "");
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
    client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
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

TEST(Http, AReplyOfManyStreamsMayBeFurtherBehind) {
  HttpOptions options = Local();
  options.limits.unsent_bytes = 1 << 20;
  options.limits.unsent_stream_bytes = 1 << 20;
  std::atomic<size_t> taken = 0;
  std::atomic<bool> gave_up = false;
  HttpServer server(options, [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->CarryStreams(24);
    reply->Start(200, "text/plain", {});
    const std::string piece(64 << 10, 'x');
    while (reply->Write(piece)) taken += piece.size();
    gave_up = true;
  });
  Client client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  for (int i = 0; i < 2000 && !gave_up; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GE(taken, 24u << 20);
  EXPECT_LT(taken, 48u << 20);  // what the sockets hold comes on top
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

std::string Whole(Client& client, const std::string& request) {
  client.Send(request);
  return client.Rest();
}

constexpr const char* kLast = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

TEST(Http, PipelinedBodiesAndEmptyLinesBetweenRequests) {
  HttpServer server(Local(), Echo);
  Client client(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab\r\n";
  }
  const std::string replies = Whole(client, requests + kLast);
  size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = replies.find("POST /" + std::to_string(i) + " ab", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_TRUE(replies.ends_with("GET /last "));
}

// What a proxy in front could read in another way than this server ends the connection: nothing behind it is a request.
TEST(Http, AmbiguousRequestsAreRefused) {
  HttpServer server(Local(), Echo);
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& request : {
           head + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
           head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
           head + "Content-Length: +3\r\n\r\nabc",
           head + "Content-Length: 99999999999999999999999\r\n\r\n",
           head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
           head + "Content-Length : 3\r\n\r\nabc",
           head + "X: a\nY: b\r\n\r\n",
           head + std::string("X: a\0b\r\n\r\n", 10),
           std::string("GET / HTTP/1.1\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
           std::string("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
           std::string("GET / HTTP/9.9\r\nHost: a\r\n\r\n"),
           std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n",
       }) {
    Client client(server.port());
    const std::string reply = Whole(client, request + kLast);
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 400 ")) << request << "\n" << reply;
    EXPECT_EQ(reply.find("/last"), std::string::npos) << request;
  }
}

TEST(Http, RootPathAndWholeUrls) {
  HttpOptions options = Local();
  options.root_path = "llm/";
  HttpServer server(options, Echo);
  for (const char* target : {"/llm/v1", "/v1", "http://a/llm/v1?x"}) {
    Client client(server.port());
    const std::string reply =
        Whole(client, std::string("GET ") + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(reply.ends_with("GET /v1 ")) << target << reply;
  }
}

TEST(Http, EveryReplyCarriesTheRequestsHeaders) {
  HttpOptions options = Local();
  options.reply_headers = [](const HttpRequest& head) { return HttpHeaders{{"X-Path", head.path}}; };
  options.limits.body_bytes = 10;
  HttpServer server(options, Echo);
  for (const char* length : {"1", "11"}) {
    Client client(server.port());
    client.Send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::string(length) + "\r\n\r\na");
    EXPECT_NE(client.Until("\r\n\r\n").find("X-Path: /x\r\n"), std::string::npos) << length;
  }
}

TEST(Http, BodiesHaveASharedLimit) {
  HttpOptions options = Local();
  options.limits.body_bytes = 1000;
  options.limits.all_body_bytes = 1500;
  std::promise<void> begun, done;
  HttpServer server(options, [&, wait = done.get_future().share()](const HttpRequest& request, const auto& reply) {
    if (request.path == "/hold") {
      begun.set_value();
      wait.wait();
    }
    Echo(request, reply);
  });
  const std::string length = " HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n", head = "POST /" + length;
  Client first(server.port());
  first.Send("POST /hold" + length + "\r\n" + std::string(1000, 'x'));
  begun.get_future().wait();  // its bytes are in the server
  std::string reply;
  {
    Client other(server.port());
    other.Send(head + "Connection: close\r\n\r\n" + std::string(1000, 'x'));
    reply = other.Rest();
  }
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 503")) << reply.substr(0, 200);
  EXPECT_NE(reply.find("Retry-After: 1\r\n"), std::string::npos);
  done.set_value();
  EXPECT_TRUE(first.Until("\r\n").starts_with("HTTP/1.1 200"));
  // Its share is given back once the handler is done, which may be after the reply has arrived.
  for (int i = 0; i < 200 && !reply.starts_with("HTTP/1.1 200"); ++i) {
    Client other(server.port());
    other.Send(head + "Connection: close\r\n\r\n" + std::string(1000, 'x'));
    reply = other.Rest();
  }
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200")) << reply.substr(0, 200);
}

TEST(Http, SlowBodiesAndIdleConnectionsAreCutOff) {
  HttpOptions options = Local();
  options.limits.body = std::chrono::seconds(1);
  options.limits.idle = milliseconds(200);
  HttpServer server(options, Echo);
  Client idle(server.port()), used(server.port()), slow(server.port());
  slow.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  used.Send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(used.Rest().ends_with("GET /x "));
  EXPECT_EQ(idle.Rest(), "");
  EXPECT_EQ(slow.Rest(), "");
}

TEST(Http, AReaderThatHasStoppedIsCutOff) {
  HttpOptions options = Local();
  options.limits.write = std::chrono::seconds(1);
  std::atomic<bool> gone = false;
  HttpServer server(options, [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->OnDisconnect([&] { gone = true; });
    reply->Send({.content_type = "text/plain", .body = std::string(64 << 20, 'x')});
  });
  Client client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(client.Until("\r\n").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(server.Drain(std::chrono::seconds(20)));
  EXPECT_LT(client.Rest().size(), size_t{64} << 20);
}

TEST(Http, LargeRepliesArriveWhole) {
  std::string large(5 << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 >> 3);
  HttpServer server(Local(), [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->Send({.content_type = "application/octet-stream", .body = large});
  });
  Client client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  client.Until("\r\n\r\n");
  EXPECT_TRUE(client.Rest() == large);
}

TEST(Http, HalfClosedClients) {
  std::mutex mutex;
  std::condition_variable changed;
  int gone = 0;
  HttpServer server(Local(), [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    if (request.body.empty()) return Echo(request, reply);
    reply->OnDisconnect([&] {
      std::lock_guard lock(mutex);
      ++gone;
      changed.notify_all();
    });
  });
  Client lookup(server.port());
  lookup.Send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
  lookup.HalfClose();
  EXPECT_TRUE(lookup.Rest().ends_with("GET /x "));
  Client work(server.port());
  work.Send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
  work.HalfClose();
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return gone == 1; }));
}

TEST(Http, SilentEventStreamsGetComments) {
  HttpOptions options = Local();
  options.sse_keep_alive = std::chrono::seconds(1);
  std::mutex mutex;
  std::shared_ptr<HttpReply> held;
  HttpServer server(options, [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    std::lock_guard lock(mutex);
    held = reply;
    reply->Start(200, request.path == "/sse" ? "text/event-stream" : "text/plain", {});
    reply->Write("data: 1\n\n");
  });
  Client client(server.port());
  client.Send("GET /sse HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(client.Until(": keep-alive\n\n\r\n").ends_with("e\r\n: keep-alive\n\n\r\n"));
  std::lock_guard lock(mutex);
  EXPECT_TRUE(held->Write("data: 2\n\n"));
  held->Finish();
  EXPECT_TRUE(client.Until("0\r\n\r\n").ends_with("9\r\ndata: 2\n\n\r\n0\r\n\r\n"));
}

// What makes replies may be slower to end than the server.
TEST(Http, RepliesMayOutliveTheServer) {
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpReply>> held;
  {
    HttpServer server(Local(), [&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
      std::lock_guard lock(mutex);
      held.push_back(reply);
      reply->Start(200, "text/plain", {});
      EXPECT_TRUE(reply->Write("begun"));
      if (held.size() == 1) reply->Finish();
    });
    Client complete(server.port());
    complete.Send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    complete.Until("0\r\n\r\n");
    Client open(server.port());
    open.Send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    open.Until("begun");
  }
  ASSERT_EQ(held.size(), 2u);
  for (const auto& reply : held) {
    EXPECT_FALSE(reply->Write("late"));
    reply->Finish();
    reply->OnDisconnect([] {});
  }
}

TEST(Http, NoDescriptorToListenOnIsSaidSo) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string error;
  try {
    ListenTcp("127.0.0.1", 0);
  } catch (const base::Error& e) {
    error = e.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(error.find("cannot listen: Too many open files"), std::string::npos) << error;
}

bool HasV6() {
  try {
    return !ListenTcp("::1", 0).empty();
  } catch (const base::Error&) {
    return false;
  }
}

TEST(Http, Ipv6AndBothFamilies) {
  if (!HasV6()) GTEST_SKIP() << "this machine has no IPv6";
  const auto remote = [](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    reply->Send({.content_type = "text/plain", .body = request.remote.substr(0, request.remote.rfind(':'))});
  };
  HttpOptions options = Local();
  for (const char* host : {"::1", "[::1]"}) {
    options.host = host;
    HttpServer server(options, remote);
    Client v6 = Client::OverV6(server.port());
    EXPECT_TRUE(Whole(v6, kLast).ends_with("\r\n[::1]"));
    EXPECT_FALSE(Client(server.port()).connected());
    EXPECT_EQ(server.address(), "http://[::1]:" + std::to_string(server.port()));
  }
  for (const char* host : {"::", "localhost"}) {
    options.host = host;
    HttpServer server(options, remote);
    Client v4(server.port());
    EXPECT_TRUE(Whole(v4, kLast).ends_with("\r\n127.0.0.1")) << host;
  }
}

TEST(Http, UnixSocket) {
  const std::string path = testing::TempDir() + "peng-http-" + std::to_string(::getpid()) + ".sock";
  HttpOptions options = Local();
  options.uds = path;
  const auto use = [&] {
    HttpServer server(options, Echo);
    EXPECT_EQ(server.address(), "unix:" + path);
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0600u);
    EXPECT_THROW(HttpServer(options, Echo), base::Error);  // one is listening
    Client client(path);
    EXPECT_TRUE(Whole(client, kLast).ends_with("GET /last "));
  };
  use();
  EXPECT_FALSE(std::filesystem::exists(path));
  {  // What a killed server leaves.
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
  }
  use();
  std::ofstream(path) << "precious";
  EXPECT_THROW(HttpServer(options, Echo), base::Error);
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
  options.uds = std::string(300, 'x');
  EXPECT_THROW(HttpServer(options, Echo), base::Error);
}

TEST(Http, ServesAgainAfterItRanOutOfDescriptors) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  HttpServer server(Local(), Echo);
  Client first(server.port());
  first.Send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(first.Until("GET /1 ").ends_with("GET /1 "));
  Client waiting;
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  waiting.Connect(server.port());
  first.Send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(first.Until("GET /2 ").ends_with("GET /2 "));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(Whole(waiting, kLast).ends_with("GET /last "));
  Client later(server.port());
  EXPECT_TRUE(Whole(later, kLast).ends_with("GET /last "));
}

TEST(Http, StopKeepAliveEndsConnectionsButAcceptsNewOnes) {
  HttpServer server(Local(), Echo);
  Client idle(server.port());
  idle.Send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(idle.Until("GET /1 ").ends_with("GET /1 "));
  server.StopKeepAlive();
  EXPECT_EQ(idle.Rest(), "");
  Client probe(server.port());
  const std::string reply = Whole(probe, "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(reply.ends_with("GET /2 "));
  EXPECT_NE(reply.find("Connection: close\r\n"), std::string::npos);
}

TEST(Http, TlsFilesThatCannotBeUsedAreUsageErrors) {
  HttpOptions options = Local();
  options.tls.certfile = "/nonexistent.pem";
  try {
    HttpServer server(options, Echo);
    ADD_FAILURE();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.kind(), base::ErrorKind::kUsage);
    EXPECT_EQ(
        std::string(e.what()),
        "--ssl-certfile /nonexistent.pem: cannot be read: No such file or directory; name a PEM file that peng may "
        "read");
  }
}

TEST(Http, ATlsFileThatIsNoFileIsNotWaitedFor) {
  const std::string fifo = testing::TempDir() + "peng-tls-" + std::to_string(::getpid()) + ".fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string folder = PENG_SOURCE_DIR "/tests/data/tls/";
  for (const auto& [cert, key, authority] :
       {std::tuple{fifo, std::string(), std::string()}, std::tuple{folder + "server.pem", fifo, std::string()},
        std::tuple{folder + "server.pem", folder + "server.key", fifo}}) {
    HttpOptions options = Local();
    options.tls.certfile = cert;
    options.tls.keyfile = key;
    options.tls.ca_certs = authority;
    try {
      HttpServer server(options, Echo);
      ADD_FAILURE() << cert << " " << key;
    } catch (const base::Error& e) {
      EXPECT_NE(std::string(e.what()).find("is not a regular file"), std::string::npos) << e.what();
    }
  }
  std::filesystem::remove(fifo);
}

}  // namespace
}  // namespace peng::server
