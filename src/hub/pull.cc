// SPDX-License-Identifier: Apache-2.0
#include "hub/pull.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "hub/checksum.h"
#include "hub/download.h"
#include "hub/files.h"
#include "hub/model_folder.h"
#include "hub/remote.h"

namespace peng::hub {
namespace {

using base::Error;
using base::ErrorKind;

int64_t SizeOnDisk(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
}

bool SameContent(const RemoteFile& a, const RemoteFile& b) {
  if (!a.sha256.empty() && !b.sha256.empty()) return a.sha256 == b.sha256;
  return !a.git_sha1.empty() && a.git_sha1 == b.git_sha1;
}

// A file of the folder that no manifest tells about (it was put there by hand, or a crash came between), by its bytes.
// Its SHA-256; empty if it is another file.
std::string ChecksumIfSame(const std::string& path, const RemoteFile& file) {
  if ((file.sha256.empty() && file.git_sha1.empty()) || file.size < 0 || SizeOnDisk(path) != file.size) return "";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return "";
  Checksum sum(file);
  const bool read = sum.UpdateFromFile(fd, file.size);
  ::close(fd);
  if (!read) return "";
  sum.Finish();
  return sum.Difference().empty() ? sum.sha256() : "";
}

struct Job {
  RemoteFile file;
  std::string partial;
};

// Files on several connections at once. The first failure ends them all.
class Fetch {
 public:
  Fetch(const Remote& remote, std::vector<Job> jobs, const std::atomic<bool>* cancel, Progress& progress)
      : remote_(remote), jobs_(std::move(jobs)), cancel_(cancel), progress_(progress), done_(jobs_.size()) {
    // The largest first, so that it does not run alone at the end.
    std::sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) { return a.file.size > b.file.size; });
  }

  // The files with what is known of them now.
  std::vector<RemoteFile> Run() {
    const size_t threads = std::min<size_t>(jobs_.size(), static_cast<size_t>(remote_.settings().workers));
    {
      std::vector<std::jthread> workers;
      for (size_t i = 0; i < threads; ++i) workers.emplace_back([this] { Work(); });
      while (running_ > 0 || next_ < jobs_.size()) {
        if (cancel_ != nullptr && *cancel_) stop_ = true;
        if (stop_ && running_ == 0) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    if (failure_) std::rethrow_exception(failure_);
    if (stop_) ThrowCancelled(remote_.repo());
    return std::move(done_);
  }

 private:
  void Work() {
    HttpClient client(MakeHttpOptions(remote_.settings(), &stop_));
    for (;;) {
      ++running_;
      const size_t i = next_++;
      if (i < jobs_.size() && !stop_) One(client, i);
      --running_;
      if (i >= jobs_.size() || stop_) return;
    }
  }

  void One(HttpClient& client, size_t i) {
    try {
      RemoteFile file = jobs_[i].file;
      const FetchedFile fetched = DownloadFile(client, remote_, file, jobs_[i].partial, progress_);
      file.size = fetched.size;
      file.sha256 = fetched.sha256;
      progress_.FileDone(file.path, file.size);
      done_[i] = std::move(file);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
    }
  }

  const Remote& remote_;
  std::vector<Job> jobs_;
  const std::atomic<bool>* cancel_;
  Progress& progress_;
  std::vector<RemoteFile> done_;
  std::atomic<size_t> next_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

class PullJob {
 public:
  PullJob(const PullRequest& request, const HubSettings& settings, const std::string& peng_home,
          const std::atomic<bool>* cancel, Progress& progress)
      : request_(request),
        remote_(MakeRemote(settings, request.name.repo, request.revision)),
        folder_(peng_home, request.name.repo),
        cancel_(cancel),
        progress_(progress) {}

  Manifest Run() {
    const std::string name = request_.name.text();
    HttpClient client(MakeHttpOptions(remote_->settings(), cancel_));
    const RemoteListing listing = remote_->List(client, [&](const std::string& line) { progress_.Line(line); });
    const std::vector<RemoteFile> chosen =
        SelectFiles(name, listing.files, {request_.name.tag, request_.include, request_.exclude});
    folder_.Lock(cancel_, progress_);
    const std::optional<Manifest> old = folder_.ReadManifest();
    manifest_ = {request_.name.repo, remote_->settings().endpoint, listing.revision, listing.commit, {}};
    const std::vector<Job> jobs = Missing(chosen, old);
    KeepOthers(listing.files, chosen, old);
    if (jobs.empty() && old && SameFiles(*old)) {
      progress_.Line(name + ": all " + std::to_string(chosen.size()) + " files are there already");
      return Publish({}, old);
    }
    Announce(name, listing, jobs);
    std::vector<RemoteFile> fetched = Fetch(*remote_, jobs, cancel_, progress_).Run();
    progress_.Finish();
    std::map<std::string, std::string> moved;
    for (const Job& job : jobs) moved[job.file.path] = job.partial;
    for (RemoteFile& file : fetched) manifest_.files.push_back(std::move(file));
    return Publish(moved, old);
  }

 private:
  // Fills the manifest with the files that are there and returns the others.
  std::vector<Job> Missing(const std::vector<RemoteFile>& chosen, const std::optional<Manifest>& old) {
    std::vector<Job> jobs;
    for (const RemoteFile& file : chosen) {
      const std::string path = folder_.FilePath(file.path);
      const RemoteFile* known = old ? old->Find(file.path) : nullptr;
      if (known != nullptr && SameContent(*known, file) && SizeOnDisk(path) == known->size) {
        manifest_.files.push_back(*known);
        continue;
      }
      if (std::string sha256 = known == nullptr ? ChecksumIfSame(path, file) : ""; !sha256.empty()) {
        manifest_.files.push_back({file.path, file.size, sha256, file.git_sha1});
        continue;
      }
      jobs.push_back({file, folder_.PartialPath(file)});
    }
    return jobs;
  }

  // Other files of the model that were pulled before, another GGUF say, stay as long as the hub has them at all.
  void KeepOthers(const std::vector<RemoteFile>& listed, const std::vector<RemoteFile>& chosen,
                  const std::optional<Manifest>& old) {
    if (!old) return;
    const auto has = [](const std::vector<RemoteFile>& files, const std::string& path) {
      return std::any_of(files.begin(), files.end(), [&](const RemoteFile& f) { return f.path == path; });
    };
    for (const RemoteFile& file : old->files) {
      if (has(chosen, file.path)) continue;
      if (has(listed, file.path) && SizeOnDisk(folder_.FilePath(file.path)) == file.size) {
        manifest_.files.push_back(file);
      } else {
        gone_.push_back(file.path);
      }
    }
  }

  bool SameFiles(const Manifest& old) const { return gone_.empty() && old.files.size() == manifest_.files.size(); }

  void Announce(const std::string& name, const RemoteListing& listing, const std::vector<Job>& jobs) {
    int64_t total = 0, arrived = 0;
    for (const Job& job : jobs) {
      total += std::max<int64_t>(0, job.file.size);
      arrived += std::max<int64_t>(0, SizeOnDisk(job.partial));
    }
    CheckSpace(folder_.path(), std::max<int64_t>(0, total - arrived));
    const std::string at = listing.commit.empty() ? listing.revision : listing.commit.substr(0, 12);
    progress_.Line("pulling " + name + " at " + at + " from " + remote_->settings().endpoint + ": " +
                   std::to_string(jobs.size()) + " files, " + BytesText(total) +
                   (arrived > 0 ? ", " + BytesText(arrived) + " of them here" : "") + ", into " + folder_.path());
    progress_.Start(total, static_cast<int>(jobs.size()));
  }

  Manifest Publish(const std::map<std::string, std::string>& moved, const std::optional<Manifest>& old) {
    std::sort(manifest_.files.begin(), manifest_.files.end(),
              [](const RemoteFile& a, const RemoteFile& b) { return a.path < b.path; });
    const bool same = old && moved.empty() && gone_.empty() && old->commit == manifest_.commit &&
                      old->revision == manifest_.revision && old->files.size() == manifest_.files.size();
    if (!same) folder_.Publish(manifest_, moved, gone_);
    return manifest_;
  }

  const PullRequest& request_;
  std::unique_ptr<Remote> remote_;
  ModelFolder folder_;
  const std::atomic<bool>* cancel_;
  Progress& progress_;
  Manifest manifest_;
  std::vector<std::string> gone_;
};

}  // namespace

Manifest Pull(const PullRequest& request, const HubSettings& settings, const std::string& peng_home,
              const std::atomic<bool>* cancel, Progress& progress) {
  if (settings.offline()) {
    throw Error(ErrorKind::kUsage, request.name.text(), "cannot be pulled: " + settings.offline_because + " is set",
                "unset it, or carry the model by disk with --export and --import");
  }
  if (!request.revision.empty() && !IsRevision(request.revision)) {
    throw Error(ErrorKind::kUsage, "--revision",
                "\"" + base::Printable(request.revision, 80) + "\" is no branch, tag or commit");
  }
  return PullJob(request, settings, peng_home, cancel, progress).Run();
}

}  // namespace peng::hub
