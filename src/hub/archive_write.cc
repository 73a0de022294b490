// SPDX-License-Identifier: Apache-2.0
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "hub/archive.h"
#include "hub/checksum.h"
#include "hub/files.h"
#include "hub/remote.h"
#include "hub/utf8_locale.h"

namespace peng::hub {
namespace {

using base::Error;
using base::ErrorKind;

constexpr size_t kBlockBytes = size_t{256} << 10;

struct Target {
  base::AtomicFileWriter& writer;
  std::exception_ptr thrown;  // no exception passes through libarchive
};

la_ssize_t WriteBlock(archive* writer, void* data, const void* bytes, size_t size) {
  auto* target = static_cast<Target*>(data);
  try {
    target->writer.Write(std::string_view(static_cast<const char*>(bytes), size));
    return static_cast<la_ssize_t>(size);
  } catch (...) {
    target->thrown = std::current_exception();
    archive_set_error(writer, EIO, "cannot be written");
    return ARCHIVE_FATAL;
  }
}

class Input {
 public:
  explicit Input(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) FailOnDisk("cannot open", path_);
  }
  ~Input() { ::close(fd_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  size_t Read(std::span<char> buffer) {
    for (;;) {
      const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) FailOnDisk("cannot read", path_);
    }
  }

 private:
  const std::string path_;
  int fd_;
};

class Writer {
 public:
  Writer(base::AtomicFileWriter& file, std::string where)
      : target_{file, nullptr}, where_(std::move(where)), archive_(archive_write_new()) {
    if (archive_ == nullptr) throw std::bad_alloc();
    // pax for sizes and names that the old header cannot hold; no padding beyond tar's own.
    Check(archive_write_set_format_pax_restricted(archive_.get()));
    Check(archive_write_set_bytes_per_block(archive_.get(), static_cast<int>(kBlockBytes)));
    Check(archive_write_set_bytes_in_last_block(archive_.get(), 1));
    Check(archive_write_open(archive_.get(), &target_, nullptr, &WriteBlock, nullptr));
  }

  void BeginEntry(const std::string& name, int64_t size) {
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(), &archive_entry_free);
    if (entry == nullptr) throw std::bad_alloc();
    archive_entry_set_pathname_utf8(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), size);
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_mtime(entry.get(), 0, 0);  // the same model gives the same archive
    Check(archive_write_header(archive_.get(), entry.get()));
  }

  void Write(std::string_view bytes) {
    const la_ssize_t written = archive_write_data(archive_.get(), bytes.data(), bytes.size());
    if (written < 0 || static_cast<size_t>(written) != bytes.size()) Check(ARCHIVE_FATAL);
  }

  void Close() { Check(archive_write_close(archive_.get())); }

 private:
  struct Free {
    void operator()(archive* writer) const { archive_write_free(writer); }
  };

  void Check(int code) {
    if (code == ARCHIVE_OK) return;
    if (target_.thrown) std::rethrow_exception(target_.thrown);
    const char* text = archive_error_string(archive_.get());
    throw Error(ErrorKind::kRuntime, where_,
                std::string("cannot write the archive: ") + base::Printable(text ? text : "?"));
  }

  const Utf8Locale locale_;
  Target target_;
  const std::string where_;
  std::unique_ptr<archive, Free> archive_;
};

}  // namespace

Manifest DescribeFolder(const std::string& repo, const std::string& folder, const std::vector<std::string>& paths,
                        const std::atomic<bool>* cancel) {
  Manifest manifest{repo, "", "", "", {}};
  std::vector<char> buffer(kBlockBytes);
  for (const std::string& path : paths) {
    RemoteFile file{path, 0, "", ""};
    Input input(folder + "/" + path);
    Checksum sum(file);
    while (const size_t got = input.Read(buffer)) {
      if (cancel != nullptr && *cancel) ThrowCancelled(repo);
      sum.Update({buffer.data(), got});
    }
    file.size = sum.bytes();
    sum.Finish();
    file.sha256 = sum.sha256();
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

void ExportModel(const Manifest& manifest, const std::string& folder, const std::string& archive,
                 const std::atomic<bool>* cancel, Progress& progress) {
  int64_t total = 0;
  for (const RemoteFile& file : manifest.files) total += file.size;
  const size_t slash = archive.rfind('/');
  CheckSpace(slash == std::string::npos ? "." : archive.substr(0, slash + 1), total);
  base::AtomicFileWriter file_writer(archive);
  Writer writer(file_writer, base::Printable(archive, 4096));
  const std::string head = WriteManifest(manifest);
  writer.BeginEntry(kArchiveManifest, static_cast<int64_t>(head.size()));
  writer.Write(head);
  progress.Start(total, static_cast<int>(manifest.files.size()));
  std::vector<char> buffer(kBlockBytes);
  for (const RemoteFile& file : manifest.files) {
    writer.BeginEntry(file.path, file.size);
    Input input(folder + "/" + file.path);
    Checksum sum(file);
    while (const size_t got = input.Read(buffer)) {
      if (cancel != nullptr && *cancel) ThrowCancelled(manifest.repo);
      sum.Update({buffer.data(), got});
      if (sum.bytes() > file.size) break;
      writer.Write({buffer.data(), got});
      progress.Add(static_cast<int64_t>(got));
    }
    sum.Finish();
    if (sum.bytes() != file.size || !sum.Difference().empty()) {
      throw Error(
          ErrorKind::kModelFile, base::Printable(folder + "/" + file.path, 4096),
          "is not the file that was pulled: " + (sum.bytes() != file.size ? "its size differs" : sum.Difference()),
          "remove it and pull the model again");
    }
    progress.FileDone(file.path, file.size);
  }
  writer.Close();
  file_writer.Commit();
  progress.Finish();
}

}  // namespace peng::hub
