// SPDX-License-Identifier: Apache-2.0
#include "hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/ascii.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "hub/checksum.h"
#include "hub/files.h"

namespace peng::hub {
namespace {

using base::Error;
using base::ErrorKind;

// A try that brings less than this counts against the number of retries; one that brings more starts the count anew.
constexpr int64_t kHeadwayBytes = int64_t{1} << 20;

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

struct ContentRange {
  int64_t begin = -1, total = -1;  // -1 = not told
};

// "bytes 100-199/200", "bytes 100-199/*"
ContentRange ParseContentRange(std::string_view text) {
  ContentRange range;
  if (!text.starts_with("bytes ")) return range;
  text.remove_prefix(6);
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos) return range;
  range.begin = ParseNumber(text.substr(0, dash)).value_or(-1);
  range.total = ParseNumber(text.substr(slash + 1)).value_or(-1);
  return range;
}

std::string Unquote(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return base::AsciiLower(etag);
}

// Only a strong ETag says that bytes are the same.
bool IsStrong(const std::string& etag) { return etag.size() >= 2 && etag.front() == '"' && etag.size() < 512; }

// The file being filled: what has arrived, its checksum, and the ETag it arrived under.
class Partial final : public BodySink {
 public:
  Partial(const std::string& path, RemoteFile file, Progress& progress)
      : path_(path), file_(std::move(file)), progress_(progress), sum_(file_) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) FailOnDisk("cannot create", path_);
    TakeUpWhatIsThere();
  }
  ~Partial() override {
    if (fd_ < 0) return;
    ::fsync(fd_);
    ::close(fd_);
  }

  int64_t offset() const { return sum_.bytes(); }
  const std::string& etag() const { return etag_; }
  bool is_whole() const { return file_.size >= 0 && offset() == file_.size; }
  const std::string& fault() const { return fault_; }
  bool wants_restart() const { return restart_; }

  void Restart() {
    progress_.Add(-offset());
    if (::ftruncate(fd_, 0) != 0) FailOnDisk("cannot empty", path_);
    sum_.Restart();
    etag_.clear();
    restart_ = false;
    ForgetEtag();
  }

  bool Begin(const HttpReply& head) override {
    fault_.clear();
    if (!CheckLinkedEtag(head.Header("x-linked-etag"))) return false;
    int64_t total = -1;
    if (head.status == 206) {
      const ContentRange range = ParseContentRange(head.Header("content-range"));
      if (range.begin != offset()) return Stop("the server answered with another range than the one asked for", true);
      total = range.total;
    } else {
      if (offset() > 0) Restart();
      if (head.Header("content-encoding").empty()) total = ParseNumber(head.Header("content-length")).value_or(-1);
    }
    if (total >= 0 && file_.size >= 0 && total != file_.size) {
      return Stop("the server has " + std::to_string(total) + " bytes, the hub lists " + std::to_string(file_.size),
                  true);
    }
    if (file_.size < 0) announced_ = total;
    if (etag_ != head.Header("etag")) {
      etag_ = head.Header("etag");
      KeepEtag();
    }
    return true;
  }

  bool Write(std::string_view bytes) override {
    const int64_t size = static_cast<int64_t>(bytes.size());
    if (file_.size >= 0 && offset() + size > file_.size) {
      return Stop("the server sends more than the " + std::to_string(file_.size) + " bytes that the hub lists", true);
    }
    for (std::string_view rest = bytes; !rest.empty();) {
      const ssize_t written =
          ::pwrite(fd_, rest.data(), rest.size(), offset() + size - static_cast<int64_t>(rest.size()));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        disk_error_ = errno;
        return Stop("cannot write", false);
      }
      rest.remove_prefix(static_cast<size_t>(written));
    }
    sum_.Update(bytes);
    progress_.Add(size);
    return true;
  }

  void ThrowDiskError() const {
    errno = disk_error_;
    if (disk_error_ != 0) FailOnDisk("cannot write", path_);
  }

  // Whether what arrived is the file's end, as far as anybody told.
  bool ReachedEnd() const {
    const int64_t size = file_.size >= 0 ? file_.size : announced_;
    return size < 0 || offset() == size;
  }

  // What is wrong with the whole file; empty if nothing is.
  std::string Check() {
    sum_.Finish();
    if (!linked_sha256_.empty() && linked_sha256_ != sum_.sha256()) {
      return "has SHA-256 " + sum_.sha256() + ", not " + linked_sha256_;
    }
    return sum_.Difference();
  }

  FetchedFile Seal() {
    if (::fsync(fd_) != 0) FailOnDisk("cannot sync", path_);
    ForgetEtag();
    return {sum_.sha256(), file_.size >= 0 ? file_.size : announced_ >= 0 ? announced_ : sealed_bytes()};
  }

 private:
  int64_t sealed_bytes() const {
    struct stat info{};
    return ::fstat(fd_, &info) == 0 ? info.st_size : 0;
  }

  bool has_checksum() const { return !file_.sha256.empty() || (!file_.git_sha1.empty() && file_.size >= 0); }

  // A checksum finds out whether the bytes are right. Without one they are trusted if they were synced with the ETag
  // that the server still has.
  void TakeUpWhatIsThere() {
    struct stat info{};
    if (::fstat(fd_, &info) != 0) FailOnDisk("cannot stat", path_);
    int64_t usable = info.st_size;
    if (!has_checksum()) {
      etag_ = KeptEtag();
      if (!IsStrong(etag_)) usable = 0;
    }
    if (file_.size >= 0 && usable > file_.size) usable = 0;
    if (!sum_.UpdateFromFile(fd_, usable)) FailOnDisk("cannot read", path_);
    if (usable != info.st_size && ::ftruncate(fd_, usable) != 0) FailOnDisk("cannot cut", path_);
    progress_.Add(usable);
  }

  // The hub names the content in the reply that sends on to a storage.
  bool CheckLinkedEtag(const std::string& linked) {
    const std::string digest = Unquote(linked);
    if (!IsHex(digest, 64)) return true;
    if (file_.sha256.empty() && file_.git_sha1.empty()) linked_sha256_ = digest;
    if (!file_.sha256.empty() && digest != file_.sha256) {
      return Stop("the hub now names the content " + digest + ", not " + file_.sha256, false);
    }
    return true;
  }

  bool Stop(std::string fault, bool restart) {
    fault_ = std::move(fault);
    restart_ = restart;
    return false;
  }

  std::string etag_path() const { return path_ + ".etag"; }
  std::string KeptEtag() const {
    if (!IsRegularFile(etag_path())) return "";
    return base::ReadFile(etag_path(), 4096, ErrorKind::kRuntime);
  }
  void KeepEtag() {
    if (has_checksum() || !IsStrong(etag_)) return;
    base::AtomicFileWriter writer(etag_path());
    writer.Write(etag_);
    writer.Commit();
  }
  void ForgetEtag() { ::unlink(etag_path().c_str()); }

  const std::string path_;
  const RemoteFile file_;
  Progress& progress_;
  Checksum sum_;
  std::string etag_, fault_, linked_sha256_;
  bool restart_ = false;
  int disk_error_ = 0;
  int64_t announced_ = -1;
  int fd_ = -1;
};

HttpRequest RangeRequest(const Remote& remote, const RemoteFile& file, const Partial& partial) {
  HttpRequest request = remote.FileRequest(file);
  request.headers.push_back("Accept-Encoding: identity");
  if (partial.offset() == 0) return request;
  request.headers.push_back("Range: bytes=" + std::to_string(partial.offset()) + "-");
  // A server whose file is another by now then sends the whole of it.
  if (IsStrong(partial.etag())) request.headers.push_back("If-Range: " + partial.etag());
  return request;
}

// Asks until the file's end has arrived.
void FetchAll(HttpClient& client, const Remote& remote, const RemoteFile& file, Partial& partial, Progress& progress) {
  const std::string where = remote.repo() + ": " + base::Printable(file.path);
  for (int attempt = 1; !partial.is_whole(); ++attempt) {
    const int64_t before = partial.offset();
    const HttpResult result = client.Get(RangeRequest(remote, file, partial), &partial);
    if (result.end == HttpEnd::kCancelled) ThrowCancelled(where);
    partial.ThrowDiskError();
    std::string fault = result.fault, action = result.action;
    bool again = result.retryable;
    if (result.end == HttpEnd::kReply) {
      const int status = result.reply.status;
      const bool arrived = status == 200 || status == 206;
      if (arrived && partial.ReachedEnd()) return;
      // 416: the file ends before the bytes that are here, so it is another.
      if (status == 416 && partial.offset() > 0) partial.Restart();
      // A storage knows no accounts: it refuses addresses that have run out, and the hub gives a new one.
      const bool from_hub = OriginOf(result.reply.url) == OriginOf(remote.settings().endpoint);
      if (!arrived && status != 416 && !IsPassing(status) && from_hub) remote.Refuse(result.reply, where);
      again = true;
      fault = arrived ? "the connection was closed early"
                      : OriginOf(result.reply.url) + " answered HTTP " + std::to_string(status);
    } else if (result.end == HttpEnd::kSinkStopped) {
      fault = partial.fault();
      again = partial.wants_restart();
      action = "the model may have changed on the hub just now: run the command again";
      if (again) partial.Restart();
    }
    if (partial.offset() - before >= kHeadwayBytes) attempt = 1;
    const int tries = result.unreachable ? std::min(2, remote.settings().retries) : remote.settings().retries;
    const double wait = BackoffSeconds(attempt, result.reply);
    if (!again || attempt > tries || wait < 0) {
      throw Error(ErrorKind::kRuntime, where, fault,
                  action.empty() ? "what has arrived is kept; run the same command to go on" : action);
    }
    progress.Line(where + ": " + fault + "; trying again");
    if (!WaitFor(wait, client.options().cancel)) ThrowCancelled(where);
  }
}

}  // namespace

FetchedFile DownloadFile(HttpClient& client, const Remote& remote, const RemoteFile& file, const std::string& path,
                         Progress& progress) {
  const std::string where = remote.repo() + ": " + base::Printable(file.path);
  Partial partial(path, file, progress);
  for (int tries = 1;; ++tries) {
    FetchAll(client, remote, file, partial, progress);
    const std::string difference = partial.Check();
    if (difference.empty()) return partial.Seal();
    partial.Restart();
    if (tries == 2) {
      ::unlink(path.c_str());
      throw Error(ErrorKind::kRuntime, where, "arrived damaged twice: " + difference,
                  "it was removed; try again later, or another mirror with HF_ENDPOINT");
    }
    progress.Line(where + ": arrived damaged (" + difference + "); fetching it once more");
  }
}

}  // namespace peng::hub
