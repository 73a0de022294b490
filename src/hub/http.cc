// SPDX-License-Identifier: Apache-2.0
#include "hub/http.h"

#include <curl/curl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "base/ascii.h"
#include "base/check.h"
#include "base/error.h"
#include "hub/remote_file.h"

namespace peng::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxRefusalBytes = size_t{64} << 10;
constexpr long kBufferBytes = 256L << 10;

void StartCurl() {
  static std::once_flag once;
  std::call_once(once, [] { PENG_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); });
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

void Append(HeaderList& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  (void)list.release();
  list.reset(longer);
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool IsLinked(const std::string& name) { return name == "x-repo-commit" || name.starts_with("x-linked-"); }

std::string HostOf(const std::string& url) {
  const std::string origin = OriginOf(url);
  return origin.empty() ? base::Printable(url, 80) : origin.substr(origin.find("://") + 3);
}

bool NeverConnected(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_COULDNT_CONNECT;
}

bool IsDistrust(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR;
}

void Describe(CURLcode code, const char* detail, const std::string& url, HttpResult* result) {
  result->end = HttpEnd::kFailed;
  result->fault = HostOf(url) + ": " + base::Printable(*detail != '\0' ? detail : curl_easy_strerror(code));
  result->unreachable = NeverConnected(code);
  result->retryable = !IsDistrust(code) && code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL &&
                      code != CURLE_OUT_OF_MEMORY;
  if (IsDistrust(code)) {
    result->action =
        "if the hub or a proxy uses a private certificate authority, name its file with --ca-file or "
        "SSL_CERT_FILE";
  } else if (result->unreachable || code == CURLE_OPERATION_TIMEDOUT) {
    result->action = "check the network, https_proxy and no_proxy, or name a mirror with HF_ENDPOINT";
  }
}

}  // namespace

// What one transfer writes to, from inside libcurl: no exception may pass through its callbacks.
struct HttpClient::Hop {
  HttpReply reply;
  BodySink* sink = nullptr;
  size_t max_body = 0;
  bool begun = false, stopped = false, too_large = false;
  const std::atomic<bool>* cancel = nullptr;
  const std::map<std::string, std::string>* linked = nullptr;  // what earlier hops told about the file
  std::exception_ptr thrown;

  bool sinks() const { return sink != nullptr && (reply.status == 200 || reply.status == 206); }

  size_t Fail(bool* why) {
    *why = true;
    return CURL_WRITEFUNC_ERROR;
  }

  bool BeginSink() {
    for (const auto& [name, value] : *linked) reply.headers[name] = value;
    return begun = sink->Begin(reply);
  }

  void TakeHeader(std::string_view line) {
    line = base::TrimSpace(line);
    if (line.starts_with("HTTP/")) {  // a new head: of the reply after "100 Continue"
      reply.headers.clear();
      const size_t space = line.find(' ');
      reply.status = space == std::string_view::npos ? 0 : std::atoi(std::string(line.substr(space + 1, 3)).c_str());
    } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
      reply.headers[base::AsciiLower(line.substr(0, colon))] = std::string(base::TrimSpace(line.substr(colon + 1)));
    }
  }

  size_t TakeBody(std::string_view bytes) {
    if (IsRedirect(reply.status)) return bytes.size();
    if (sinks()) {
      if (!begun && !BeginSink()) return Fail(&stopped);
      return sink->Write(bytes) ? bytes.size() : Fail(&stopped);
    }
    const bool refusal = reply.status >= 400;
    const size_t limit = refusal ? kMaxRefusalBytes : max_body;
    if (reply.body.size() + bytes.size() > limit && !refusal) return Fail(&too_large);
    reply.body.append(bytes.substr(0, limit - std::min(limit, reply.body.size())));
    return bytes.size();
  }

  static size_t OnHeader(char* data, size_t, size_t size, void* hop) {
    return static_cast<Hop*>(hop)->Guard([&](Hop* self) { return self->TakeHeader({data, size}), size; });
  }
  static size_t OnBody(char* data, size_t, size_t size, void* hop) {
    return static_cast<Hop*>(hop)->Guard([&](Hop* self) { return self->TakeBody({data, size}); });
  }
  template <typename F>
  size_t Guard(F&& body) {
    try {
      return body(this);
    } catch (...) {
      thrown = std::current_exception();
      return CURL_WRITEFUNC_ERROR;
    }
  }
  static int OnProgress(void* hop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const std::atomic<bool>* cancel = static_cast<Hop*>(hop)->cancel;
    return cancel != nullptr && *cancel ? 1 : 0;
  }
};

void HttpClient::FreeHandle::operator()(void* handle) const { curl_easy_cleanup(handle); }

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {
  StartCurl();
  handle_.reset(curl_easy_init());
  if (handle_ == nullptr) throw std::bad_alloc();
}

HttpClient::~HttpClient() = default;

std::string HttpReply::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpResult HttpClient::GetHop(const HttpRequest& request, bool secrets, BodySink* sink, size_t max_body,
                              std::map<std::string, std::string>* linked, std::string* redirect) {
  CURL* curl = handle_.get();
  curl_easy_reset(curl);  // keeps connections
  Hop hop;
  hop.sink = sink;
  hop.max_body = max_body;
  hop.cancel = options_.cancel;
  hop.linked = linked;
  HeaderList list;
  for (const std::string& line : request.headers) Append(list, line);
  if (secrets) {
    for (const std::string& line : request.secret_headers) Append(list, line);
  }
  char detail[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, options_.user_agent.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout_s * 1000));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options_.stall_timeout_s)));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Hop::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &hop);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Hop::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &hop);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Hop::OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &hop);
  // libcurl leaves HTTP_PROXY alone, since a web server sets it from a header; no web server starts this program.
  if (request.url.starts_with("http:") && std::getenv("http_proxy") == nullptr) {
    if (const char* proxy = std::getenv("HTTP_PROXY")) curl_easy_setopt(curl, CURLOPT_PROXY, proxy);
  }
  if (!options_.ca_path.empty()) {
    struct stat info{};
    const bool folder = ::stat(options_.ca_path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    curl_easy_setopt(curl, folder ? CURLOPT_CAPATH : CURLOPT_CAINFO, options_.ca_path.c_str());
  }

  const CURLcode code = curl_easy_perform(curl);
  if (hop.thrown) std::rethrow_exception(hop.thrown);
  HttpResult result;
  if (code == CURLE_OK) {
    // A reply without a body still begins.
    const bool ends_early = hop.sinks() && !hop.begun && !hop.BeginSink();
    result.end = ends_early ? HttpEnd::kSinkStopped : HttpEnd::kReply;
    char* next = nullptr;
    if (IsRedirect(hop.reply.status) && curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &next) == CURLE_OK && next) {
      *redirect = next;
    }
  } else if (hop.stopped) {
    result.end = HttpEnd::kSinkStopped;
  } else if (code == CURLE_ABORTED_BY_CALLBACK) {
    result.end = HttpEnd::kCancelled;
  } else if (hop.too_large) {
    result.fault = HostOf(request.url) + ": the reply is larger than " + std::to_string(max_body) + " bytes";
  } else {
    Describe(code, detail, request.url, &result);
  }
  result.reply = std::move(hop.reply);
  result.reply.url = request.url;
  for (const auto& [name, value] : result.reply.headers) {
    if (IsLinked(name)) linked->emplace(name, value);
  }
  return result;
}

HttpResult HttpClient::Get(const HttpRequest& request, BodySink* sink, size_t max_body) {
  HttpRequest hop = request;
  std::map<std::string, std::string> linked;
  const auto fail = [&](const std::string& what) {
    HttpResult result;
    result.fault = HostOf(hop.url) + ": " + what;
    return result;
  };
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    const std::string origin = OriginOf(hop.url);
    if (origin.empty()) return fail("\"" + base::Printable(hop.url, 80) + "\" is no http or https address");
    std::string next;
    HttpResult result = GetHop(hop, origin == request.secret_origin, sink, max_body, &linked, &next);
    for (const auto& [name, value] : linked) result.reply.headers[name] = value;
    if (result.end != HttpEnd::kReply || next.empty()) return result;
    if (origin.starts_with("https:") && !OriginOf(next).starts_with("https:")) {
      return fail("sends on to an address without encryption");
    }
    hop.url = next;
  }
  return fail("sends on more than " + std::to_string(kMaxRedirects) + " times");
}

std::string OriginOf(const std::string& url) {
  StartCurl();
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
  if (parsed == nullptr || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  std::string parts[3];
  const CURLUPart kinds[3] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
  for (int i = 0; i < 3; ++i) {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), kinds[i], &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
    parts[i] = base::AsciiLower(text);
    curl_free(text);
  }
  if (parts[0] != "http" && parts[0] != "https") return "";
  return parts[0] + "://" + parts[1] + ":" + parts[2];
}

std::string EscapeUrl(std::string_view text, bool keep_slash) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte)) || c == '-' || c == '.' || c == '_' || c == '~';
    if (plain || (c == '/' && keep_slash)) {
      out.push_back(c);
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

}  // namespace peng::hub
