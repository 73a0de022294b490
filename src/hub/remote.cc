// SPDX-License-Identifier: Apache-2.0
#include "hub/remote.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <random>
#include <thread>

#include "base/error.h"
#include "hub/listing.h"

namespace peng::hub {
namespace {

using base::Error;
using base::ErrorKind;

constexpr int kTriesToConnect = 2;  // beyond the first: a network that is not there does not come by waiting

class HuggingFace final : public Remote {
 public:
  using Remote::Remote;

  RemoteListing List(HttpClient& client, const Notice& notice) override {
    RemoteListing listing;
    listing.revision = revision_.empty() ? "main" : revision_;
    const std::string api = settings_.endpoint + "/api/models/" + repo_;
    const std::string at = EscapeUrl(listing.revision, false);
    const HttpReply info = GetSmall(client, api + "/revision/" + at, "model " + repo_, notice);
    listing.commit = commit_ = ParseHuggingFaceCommit(info.body, settings_.endpoint);
    std::string url = api + "/tree/" + commit_ + "?recursive=true&expand=false";
    while (!url.empty()) {
      const HttpReply page = GetSmall(client, url, "the files of " + repo_, notice);
      for (RemoteFile& file : ParseHuggingFaceTree(page.body, settings_.endpoint))
        listing.files.push_back(std::move(file));
      if (listing.files.size() > kMaxListedFiles) {
        throw Error(ErrorKind::kRuntime, settings_.endpoint,
                    "lists more than " + std::to_string(kMaxListedFiles) + " files");
      }
      const std::string next = NextPage(page.Header("link"));
      if (!next.empty() && (++pages_ > kMaxPages || next == url)) {
        throw Error(ErrorKind::kRuntime, settings_.endpoint, "lists the files of " + repo_ + " without an end");
      }
      url = next.empty() ? "" : AtEndpoint(next);
    }
    if (const std::string fault = FilesFault(listing.files); !fault.empty()) {
      throw Error(ErrorKind::kRuntime, settings_.endpoint, fault, "the hub's list of files is not to be trusted");
    }
    return listing;
  }

  HttpRequest FileRequest(const RemoteFile& file) const override {
    return Request(settings_.endpoint + "/" + repo_ + "/resolve/" + commit_ + "/" + EscapeUrl(file.path, true));
  }

  void Refuse(const HttpReply& reply, const std::string& what) const override {
    const std::string code = reply.Header("x-error-code");
    const std::string said = base::Printable(reply.Header("x-error-message"));
    const std::string status = " (HTTP " + std::to_string(reply.status) + (said.empty() ? "" : ": " + said) + ")";
    const char* login = settings_.token.empty() ? "set HF_TOKEN to a token of an account that may read it"
                                                : "check that the account of HF_TOKEN may read it";
    if (reply.status == 401 && said.starts_with("Invalid credentials")) {
      throw Error(ErrorKind::kUsage, what, "the hub does not know the token" + status,
                  "set HF_TOKEN to a valid one, or unset it and remove the token file to read without");
    }
    if (code == "GatedRepo" || reply.status == 403) {
      throw Error(ErrorKind::kUsage, what, "is gated, or the token may not read it" + status,
                  "accept its conditions at " + page() + " and " + login);
    }
    if (code == "RevisionNotFound") {
      throw Error(ErrorKind::kUsage, what, "has no revision " + base::Printable(revision_) + status, "see " + page());
    }
    if (code == "RepoNotFound" || reply.status == 401 || (reply.status == 404 && code.empty())) {
      throw Error(ErrorKind::kUsage, what, "does not exist at " + settings_.endpoint + ", or is private" + status,
                  std::string("check the name; if it is private, ") + login);
    }
    const std::string text = said.empty() ? ParseRefusal(reply.body) : "";
    throw Error(ErrorKind::kRuntime, what,
                settings_.endpoint + " answered HTTP " + std::to_string(reply.status) +
                    (text.empty() ? said.empty() ? "" : ": " + said : ": " + text),
                "try again later");
  }

 private:
  static constexpr int kMaxPages = 1000;

  // Mirrors hand on the addresses of the hub they mirror; the next page is asked of the mirror.
  std::string AtEndpoint(const std::string& url) const {
    const std::string origin = OriginOf(url);
    if (origin.empty() || origin == OriginOf(settings_.endpoint)) {
      return origin.empty() ? settings_.endpoint + (url.starts_with('/') ? "" : "/") + url : url;
    }
    const size_t path = url.find("/api/");
    return settings_.endpoint + (path == std::string::npos ? "/" : url.substr(path));
  }

  std::string commit_;
  int pages_ = 0;
};

class ModelScope final : public Remote {
 public:
  using Remote::Remote;

  RemoteListing List(HttpClient& client, const Notice& notice) override {
    RemoteListing listing;
    listing.revision = revision_.empty() ? "master" : revision_;
    at_ = EscapeUrl(listing.revision, false);
    const HttpReply reply =
        GetSmall(client, Api() + "/files?Revision=" + at_ + "&Recursive=true", "model " + repo_, notice);
    listing.files = ParseModelScopeFiles(reply.body, settings_.endpoint);
    // The hub cuts a longer list without a word.
    constexpr size_t kCutAt = 3000;
    if (listing.files.size() >= kCutAt) {
      throw Error(ErrorKind::kRuntime, "model " + repo_, "has so many files that the hub's list of them is cut");
    }
    return listing;
  }

  HttpRequest FileRequest(const RemoteFile& file) const override {
    return Request(Api() + "?Revision=" + at_ + "&FilePath=" + EscapeUrl(file.path, false));
  }

  void Refuse(const HttpReply& reply, const std::string& what) const override {
    const std::string said = ParseRefusal(reply.body);
    const std::string status = " (HTTP " + std::to_string(reply.status) + (said.empty() ? "" : ": " + said) + ")";
    const char* login = settings_.token.empty() ? "set MODELSCOPE_API_TOKEN to a token of an account that may read it"
                                                : "check that the account of MODELSCOPE_API_TOKEN may read it";
    if (reply.status == 401 || reply.status == 403) {
      throw Error(ErrorKind::kUsage, what, "may not be read without permission" + status,
                  "ask for access at " + page() + " and " + login);
    }
    if (reply.status == 404) {
      const std::string revision = revision_.empty() ? "" : " with revision " + base::Printable(revision_);
      throw Error(ErrorKind::kUsage, what, "does not exist" + revision + " at " + settings_.endpoint + status,
                  std::string("check the name; if it is private, ") + login);
    }
    throw Error(ErrorKind::kRuntime, what, settings_.endpoint + " answered" + status, "try again later");
  }

 private:
  std::string Api() const { return settings_.endpoint + "/api/v1/models/" + repo_ + "/repo"; }

  std::string at_;
};

}  // namespace

Remote::Remote(const HubSettings& settings, std::string repo, std::string revision)
    : settings_(settings), repo_(std::move(repo)), revision_(std::move(revision)) {
  if (settings_.token.empty()) return;
  secret_headers_.push_back("Authorization: Bearer " + settings_.token);
  if (settings_.kind == HubKind::kModelScope) secret_headers_.push_back("Cookie: m_session_id=" + settings_.token);
}

std::string Remote::page() const {
  return settings_.endpoint + (settings_.kind == HubKind::kModelScope ? "/models/" : "/") + repo_;
}

HttpRequest Remote::Request(const std::string& url) const {
  return {url, {}, secret_headers_, OriginOf(settings_.endpoint)};
}

HttpReply Remote::GetSmall(HttpClient& client, const std::string& url, const std::string& what,
                           const Notice& notice) const {
  for (int attempt = 1;; ++attempt) {
    HttpResult result = client.Get(Request(url), nullptr, kMaxListingBytes);
    if (result.end == HttpEnd::kCancelled) ThrowCancelled(what);
    const bool replied = result.end == HttpEnd::kReply;
    if (replied && result.reply.status == 200) return std::move(result.reply);
    const int tries = result.unreachable ? std::min(kTriesToConnect, settings_.retries) : settings_.retries;
    const bool again = replied ? IsPassing(result.reply.status) : result.retryable;
    const double wait = BackoffSeconds(attempt, result.reply);
    if (!again || attempt > tries || wait < 0) {
      if (replied) Refuse(result.reply, what);
      throw Error(ErrorKind::kRuntime, what, result.fault, result.action);
    }
    notice((replied ? settings_.endpoint + " answered HTTP " + std::to_string(result.reply.status) : result.fault) +
           "; trying again");
    if (!WaitFor(wait, client.options().cancel)) ThrowCancelled(what);
  }
}

std::unique_ptr<Remote> MakeRemote(const HubSettings& settings, const std::string& repo, const std::string& revision) {
  if (settings.kind == HubKind::kModelScope) return std::make_unique<ModelScope>(settings, repo, revision);
  return std::make_unique<HuggingFace>(settings, repo, revision);
}

HttpOptions MakeHttpOptions(const HubSettings& settings, const std::atomic<bool>* cancel) {
  HttpOptions options;
  options.ca_path = settings.ca_path;
  options.connect_timeout_s = settings.connect_timeout_s;
  options.stall_timeout_s = settings.stall_timeout_s;
  options.user_agent = "peng";
  options.cancel = cancel;
  return options;
}

bool IsPassing(int status) { return status == 408 || status == 429 || (status >= 500 && status != 501); }

double BackoffSeconds(int attempt, const HttpReply& reply) {
  constexpr double kLongestAsked = 300, kLongest = 30;
  const std::string asked = reply.Header("retry-after");
  double seconds = 0;
  const auto [end, error] = std::from_chars(asked.data(), asked.data() + asked.size(), seconds);
  if (!asked.empty() && error == std::errc() && end == asked.data() + asked.size() && seconds >= 0) {
    return seconds > kLongestAsked ? -1 : seconds;
  }
  // Clients that failed together do not come back together.
  thread_local std::minstd_rand random{std::random_device{}()};
  const double doubled = 0.5 * static_cast<double>(1 << std::min(attempt - 1, 10));
  return std::min(kLongest, doubled) * std::uniform_real_distribution<double>(0.75, 1.25)(random);
}

bool WaitFor(double seconds, const std::atomic<bool>* cancel) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    if (cancel != nullptr && *cancel) return false;
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(left, std::chrono::milliseconds(100)));
  }
}

void ThrowCancelled(const std::string& where) {
  throw Error(ErrorKind::kRuntime, where, "interrupted; what has arrived is kept", "run the same command to go on");
}

}  // namespace peng::hub
