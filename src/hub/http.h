// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace peng::hub {

struct HttpOptions {
  std::string ca_path;            // file or folder of trusted certificates in place of the system's; empty = those
  double connect_timeout_s = 10;  // until a connection stands
  double stall_timeout_s = 30;    // without a byte
  std::string user_agent;
  const std::atomic<bool>* cancel = nullptr;  // ends what runs within a second once it is true
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;         // "Name: value"
  std::vector<std::string> secret_headers;  // sent only to `secret_origin`, whatever the redirects
  std::string secret_origin;                // "https://host:443", see OriginOf
};

struct HttpReply {
  int status = 0;
  std::string url;  // of the last hop
  // Names in small letters; of the last hop, and X-Repo-Commit and X-Linked-... of the first hop that told them, since
  // a hub tells about a file in the reply that sends its reader to a storage.
  std::map<std::string, std::string> headers;
  std::string body;  // of refusals up to 64 KiB, and of replies that nobody sinks

  std::string Header(const std::string& name) const;
};

// Takes the body of a 200 or 206. False from either ends the transfer; `fault()` says why then.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual bool Begin(const HttpReply& head) = 0;
  virtual bool Write(std::string_view bytes) = 0;
};

enum class HttpEnd { kReply, kFailed, kCancelled, kSinkStopped };

struct HttpResult {
  HttpEnd end = HttpEnd::kFailed;
  HttpReply reply;
  std::string fault;         // of kFailed: what went wrong, in one line
  std::string action;        // what to do about it, or empty
  bool retryable = false;    // the same request may succeed later
  bool unreachable = false;  // no connection came about
};

// Requests of one thread, over connections that it keeps. Proxies come from http_proxy, https_proxy, all_proxy and
// no_proxy. Redirects are followed here, up to 10, never from https to http.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // GET. The body goes to `sink`, or without one into the reply, where more than `max_body` bytes are a failure.
  HttpResult Get(const HttpRequest& request, BodySink* sink, size_t max_body = 0);

  const HttpOptions& options() const { return options_; }

 private:
  struct Hop;
  HttpResult GetHop(const HttpRequest& request, bool secrets, BodySink* sink, size_t max_body,
                    std::map<std::string, std::string>* linked, std::string* redirect);

  HttpOptions options_;
  struct FreeHandle {
    void operator()(void* handle) const;
  };
  std::unique_ptr<void, FreeHandle> handle_;
};

// "scheme://host:port" in small letters with the port written out; empty if `url` is no http or https address.
std::string OriginOf(const std::string& url);

// Everything but letters, digits and "-._~" as %XX; '/' is kept if asked for.
std::string EscapeUrl(std::string_view text, bool keep_slash);

}  // namespace peng::hub
