// SPDX-License-Identifier: Apache-2.0
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"
#include "hub/archive.h"
#include "hub/checksum.h"
#include "hub/files.h"
#include "hub/model_folder.h"
#include "hub/remote.h"
#include "hub/utf8_locale.h"

namespace peng::hub {
namespace {

using base::Error;
using base::ErrorKind;

constexpr size_t kBlockBytes = size_t{256} << 10;

struct Source {
  const std::function<size_t(std::span<char>)>& read;
  std::vector<char> buffer;
  std::exception_ptr thrown;  // no exception passes through libarchive
};

la_ssize_t ReadBlock(archive* reader, void* data, const void** bytes) {
  auto* source = static_cast<Source*>(data);
  try {
    *bytes = source->buffer.data();
    return static_cast<la_ssize_t>(source->read(source->buffer));
  } catch (...) {
    source->thrown = std::current_exception();
    archive_set_error(reader, EIO, "cannot be read");
    return ARCHIVE_FATAL;
  }
}

class Reader {
 public:
  Reader(const std::function<size_t(std::span<char>)>& read, const std::string& where, ArchiveSink& sink)
      : source_{read, std::vector<char>(kBlockBytes), nullptr},
        where_(where),
        sink_(sink),
        archive_(archive_read_new()) {
    if (archive_ == nullptr) throw std::bad_alloc();
    // Tar alone: every other format and every compression is more code that reads other people's bytes.
    if (archive_read_support_format_tar(archive_.get()) != ARCHIVE_OK ||
        archive_read_open(archive_.get(), &source_, nullptr, &ReadBlock, nullptr) != ARCHIVE_OK) {
      Fail();
    }
  }

  void Run() {
    archive_entry* entry = nullptr;
    if (!Next(&entry) || NameOf(entry) != kArchiveManifest)
      Refuse("its first entry is not " + std::string(kArchiveManifest));
    const Manifest manifest = ParseManifest(ReadText(), where_ + ": " + kArchiveManifest);
    sink_.Begin(manifest);
    std::set<std::string> seen;
    while (Next(&entry)) {
      const std::string name = NameOf(entry);
      const RemoteFile* file = manifest.Find(name);
      if (file == nullptr) Refuse("the entry \"" + base::Printable(name) + "\" is not in its manifest");
      if (!seen.insert(name).second) Refuse("the entry \"" + base::Printable(name) + "\" is there twice");
      ReadFile(*file, entry);
    }
    for (const RemoteFile& file : manifest.files) {
      if (seen.count(file.path) == 0) Refuse("the file \"" + base::Printable(file.path) + "\" is missing");
    }
  }

 private:
  struct Free {
    void operator()(archive* reader) const { archive_read_free(reader); }
  };

  [[noreturn]] void Refuse(const std::string& what) const {
    throw Error(ErrorKind::kModelFile, where_, what, "export or copy the model again");
  }

  [[noreturn]] void Fail() const {
    if (source_.thrown) std::rethrow_exception(source_.thrown);
    const char* text = archive_error_string(archive_.get());
    Refuse(std::string("is no archive of peng's: ") + base::Printable(text == nullptr ? "damaged" : text));
  }

  bool Next(archive_entry** entry) {
    const int code = archive_read_next_header(archive_.get(), entry);
    if (code == ARCHIVE_EOF) return false;
    if (code != ARCHIVE_OK) Fail();
    const std::string name = base::Printable(NameOf(*entry));
    if (archive_entry_hardlink(*entry) != nullptr || archive_entry_symlink(*entry) != nullptr) {
      Refuse("the entry \"" + name + "\" is a link");
    }
    if (archive_entry_filetype(*entry) != AE_IFREG) Refuse("the entry \"" + name + "\" is no regular file");
    return true;
  }

  // As the archive spells it: names of a manifest are the only ones that are accepted.
  std::string NameOf(archive_entry* entry) const {
    const char* name = archive_entry_pathname_utf8(entry);
    if (name == nullptr) name = archive_entry_pathname(entry);
    return name == nullptr ? "" : name;
  }

  size_t Read(std::span<char> buffer) {
    const la_ssize_t got = archive_read_data(archive_.get(), buffer.data(), buffer.size());
    if (got < 0) Fail();
    return static_cast<size_t>(got);
  }

  std::string ReadText() {
    std::string text;
    std::vector<char> buffer(size_t{64} << 10);
    while (const size_t got = Read(buffer)) {
      text.append(buffer.data(), got);
      if (text.size() > kMaxManifestBytes) Refuse(std::string(kArchiveManifest) + " is too large");
    }
    return text;
  }

  void ReadFile(const RemoteFile& file, archive_entry* entry) {
    const std::string name = "the file \"" + base::Printable(file.path) + "\" ";
    if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) != file.size) {
      Refuse(name + "has another size than the manifest says");
    }
    sink_.BeginFile(file);
    Checksum sum(file);
    std::vector<char> buffer(kBlockBytes);
    while (const size_t got = Read(buffer)) {
      if (sum.bytes() + static_cast<int64_t>(got) > file.size) Refuse(name + "is longer than the manifest says");
      sum.Update({buffer.data(), got});
      sink_.Write({buffer.data(), got});
    }
    if (sum.bytes() != file.size) Refuse(name + "is cut");
    sum.Finish();
    if (const std::string difference = sum.Difference(); !difference.empty()) Refuse(name + difference);
    sink_.EndFile(file);
  }

  const Utf8Locale locale_;
  Source source_;
  const std::string where_;
  ArchiveSink& sink_;
  std::unique_ptr<archive, Free> archive_;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Collects the files beside the model's folder and puts them into place together.
class Unpacker final : public ArchiveSink {
 public:
  Unpacker(const std::string& peng_home, const std::atomic<bool>* cancel, Progress& progress)
      : peng_home_(peng_home), cancel_(cancel), progress_(progress) {}

  void Begin(const Manifest& manifest) override {
    manifest_ = manifest;
    folder_ = std::make_unique<ModelFolder>(peng_home_, manifest.repo);
    folder_->Lock(cancel_, progress_);
    old_ = folder_->ReadManifest();
    int64_t total = 0;
    for (const RemoteFile& file : manifest.files) {
      // Sizes are the archive's claim; their sum must not wrap around.
      total = file.size > std::numeric_limits<int64_t>::max() - total ? std::numeric_limits<int64_t>::max()
                                                                      : total + file.size;
    }
    CheckSpace(folder_->path(), total);
    progress_.Line("importing " + manifest.repo + ": " + std::to_string(manifest.files.size()) + " files into " +
                   folder_->path());
    progress_.Start(total, static_cast<int>(manifest.files.size()));
  }

  void BeginFile(const RemoteFile& file) override {
    partial_ = folder_->PartialPath(file);
    ::unlink(partial_.c_str());
    fd_ = std::make_unique<Descriptor>(
        ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd_->get() < 0) FailOnDisk("cannot create", partial_);
  }

  void Write(std::string_view bytes) override {
    if (cancel_ != nullptr && *cancel_) ThrowCancelled(manifest_.repo);
    progress_.Add(static_cast<int64_t>(bytes.size()));
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_->get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) FailOnDisk("cannot write", partial_);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  void EndFile(const RemoteFile& file) override {
    if (::fsync(fd_->get()) != 0) FailOnDisk("cannot sync", partial_);
    fd_.reset();
    moved_[file.path] = partial_;
    progress_.FileDone(file.path, file.size);
  }

  Manifest Publish() {
    progress_.Finish();
    std::vector<std::string> gone;
    for (const RemoteFile& file : old_ ? old_->files : std::vector<RemoteFile>()) {
      if (moved_.count(file.path) == 0) gone.push_back(file.path);
    }
    folder_->Publish(manifest_, moved_, gone);
    return manifest_;
  }

 private:
  const std::string peng_home_;
  const std::atomic<bool>* cancel_;
  Progress& progress_;
  Manifest manifest_;
  std::unique_ptr<ModelFolder> folder_;
  std::optional<Manifest> old_;
  std::unique_ptr<Descriptor> fd_;
  std::string partial_;
  std::map<std::string, std::string> moved_;
};

}  // namespace

void ReadArchive(const std::function<size_t(std::span<char>)>& read, const std::string& where, ArchiveSink& sink) {
  Reader(read, where, sink).Run();
}

Manifest ImportModel(const std::string& archive, const std::string& peng_home, const std::atomic<bool>* cancel,
                     Progress& progress) {
  const std::string where = base::Printable(archive, 4096);
  const Descriptor file(::open(archive.c_str(), O_RDONLY | O_CLOEXEC));
  const auto read = [&](std::span<char> buffer) {
    for (;;) {
      const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) throw Error(ErrorKind::kRuntime, where, std::string("cannot read: ") + std::strerror(errno));
    }
  };
  if (file.get() < 0) throw Error(ErrorKind::kUsage, where, std::string("cannot open: ") + std::strerror(errno));
  Unpacker unpacker(peng_home, cancel, progress);
  ReadArchive(read, where, unpacker);
  return unpacker.Publish();
}

}  // namespace peng::hub
