// SPDX-License-Identifier: Apache-2.0
#include "hub/pull.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "hub/archive.h"
#include "hub/cache.h"
#include "hub/model_folder.h"

namespace peng::cli {
namespace {

using base::Error;
using base::ErrorKind;
namespace fs = std::filesystem;

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// The first signal ends the pull in order, the second at once; what has arrived stays either way.
void CatchSignals() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

struct PullFlags {
  std::string name, hub, revision, ca_file, export_file, import_file;
  std::vector<std::string> include, exclude;
  bool offline = false;
  int64_t workers = 4, retries = 5;
  double timeout = 30;
};

CommandLine Describe(PullFlags& flags) {
  CommandLine line{"pull", "Fetches a model from a hub into peng's cache, or carries one by disk."};
  line.flags.push_back(
      {"name", "ORG/NAME, or ORG/NAME:TAG for one GGUF model of several (a TAG is its name's end: Q4_0)", &flags.name});
  line.flags.push_back(
      {"--hub", "where from; PENG_HUB sets it too [huggingface]", &flags.hub, false, "huggingface|modelscope"});
  line.flags.push_back({"--revision", "branch, tag or commit", &flags.revision, false, "NAME"});
  line.flags.push_back({"--include", "fetch files that match these patterns, not those needed to serve", &flags.include,
                        false, "PATTERN"});
  line.flags.push_back({"--exclude", "leave out files that match these patterns", &flags.exclude, false, "PATTERN"});
  line.flags.push_back(
      {"--export", "write the model to this file, to carry it to another machine", &flags.export_file, false, "FILE"});
  line.flags.push_back(
      {"--import", "take the model from a file that --export wrote", &flags.import_file, false, "FILE"});
  line.flags.push_back(
      {"--offline", "never use the network; PENG_OFFLINE and HF_HUB_OFFLINE set it too", &flags.offline});
  line.flags.push_back(
      {"--ca-file", "trusted certificates (PEM) in place of the system's", &flags.ca_file, false, "FILE"});
  line.flags.push_back({"--max-workers", "files fetched at once", &flags.workers, false, "", 1, 64});
  line.flags.push_back({"--retries", "tries of a request after the first", &flags.retries, false, "", 0, 100});
  line.flags.push_back({"--timeout", "seconds without a byte until a connection counts as cut", &flags.timeout, false,
                        "SECONDS", 1, 86400});
  return line;
}

void CheckFlags(const PullFlags& flags) {
  const auto refuse = [](const char* where, const char* what, const char* action) {
    throw Error(ErrorKind::kUsage, where, what, action);
  };
  if (!flags.import_file.empty() && !flags.export_file.empty())
    refuse("--import", "is given beside --export", "give one");
  if (!flags.import_file.empty() && !flags.name.empty()) {
    refuse("--import", "is given beside a name", "leave the name out: the file tells it");
  }
  if (flags.import_file.empty() && flags.name.empty()) {
    refuse("NAME", "is missing", "name a model as ORG/NAME, or a file with --import");
  }
  if (!flags.import_file.empty() && ::access(flags.import_file.c_str(), R_OK) != 0) {
    throw Error(ErrorKind::kUsage, "--import " + base::Printable(flags.import_file, 4096),
                std::string("cannot be read: ") + std::strerror(errno), "name a file that --export wrote");
  }
  if (!flags.ca_file.empty() && ::access(flags.ca_file.c_str(), R_OK) != 0) {
    refuse("--ca-file", "cannot be read", "name a file of certificates in PEM form");
  }
}

hub::HubSettings Settings(const PullFlags& flags, const base::Settings& environment) {
  hub::HubSettings settings = hub::ReadHubSettings(flags.hub, environment);
  if (flags.offline) settings.offline_because = "--offline";
  if (!flags.ca_file.empty()) settings.ca_path = flags.ca_file;
  settings.workers = static_cast<int>(flags.workers);
  settings.retries = static_cast<int>(flags.retries);
  settings.stall_timeout_s = flags.timeout;
  return settings;
}

std::string Absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

std::string FetchModel(const PullFlags& flags, const hub::RepoName& name, const hub::HubSettings& settings,
                       const hub::CachePaths& paths) {
  if (!name.has_owner()) {
    throw Error(ErrorKind::kUsage, name.text(), "names no owner", "write ORG/NAME, as the model's page has it");
  }
  hub::Progress progress("pulled");
  hub::Pull({name, flags.revision, flags.include, flags.exclude}, settings, paths.peng_home, &interrupted, progress);
  if (const auto found = hub::FindInCaches(name, "", {paths.peng_home, "", ""}); flags.include.empty() && found.path) {
    return *found.path;
  }
  return hub::ModelFolder(paths.peng_home, name.repo).path();  // files of the user's own choice
}

// Where the model is: in peng's cache, fetched or brought up to date, or, if it may not be fetched or is to be
// exported, where it lies already.
std::string FindOrPull(const PullFlags& flags, const hub::RepoName& name, const base::Settings& environment) {
  const hub::CachePaths paths = hub::ReadCachePaths(environment);
  const hub::HubSettings settings = Settings(flags, environment);
  if (settings.offline() || !flags.export_file.empty()) {
    const hub::CacheLookup lookup = hub::FindInCaches(name, flags.revision, paths);
    if (lookup.path) return *lookup.path;
    if (!settings.offline()) return FetchModel(flags, name, settings, paths);
    throw hub::NotCached(name, lookup, settings.offline_because);
  }
  return FetchModel(flags, name, settings, paths);
}

// The files that belong to what the name means, in the folder that `found` is or lies in.
std::vector<std::string> FilesToExport(const hub::RepoName& name, const fs::path& found, const std::string& folder) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (entry.is_regular_file() && !file.starts_with('.')) paths.push_back(file);
  }
  std::sort(paths.begin(), paths.end());
  if (fs::is_regular_file(found)) {
    for (const hub::GgufModel& model : hub::GgufModels(paths)) {
      if (model.paths.front() == found.filename()) return model.paths;
    }
  }
  std::vector<hub::RemoteFile> files;
  for (const std::string& path : paths) files.push_back({path, 0, "", ""});
  paths.clear();
  for (const hub::RemoteFile& file : hub::SelectFiles(name.text(), files, {})) paths.push_back(file.path);
  return paths;
}

// With the checksums that the files came with, if peng fetched them: writing finds out whether they still are those.
hub::Manifest ManifestOf(const hub::RepoName& name, const std::vector<std::string>& paths, const std::string& folder,
                         const std::string& peng_home) {
  const hub::ModelFolder own(peng_home, name.repo);
  std::optional<hub::Manifest> known = own.path() == folder ? own.ReadManifest() : std::nullopt;
  if (!known) return hub::DescribeFolder(name.repo, folder, paths, &interrupted);
  std::vector<hub::RemoteFile> files;
  for (const std::string& path : paths) {
    const hub::RemoteFile* file = known->Find(path);
    if (file == nullptr) return hub::DescribeFolder(name.repo, folder, paths, &interrupted);
    files.push_back(*file);
  }
  known->files = std::move(files);
  return *known;
}

void Export(const hub::RepoName& name, const std::string& found, const std::string& file,
            const std::string& peng_home) {
  const std::string folder = fs::is_regular_file(found) ? fs::path(found).parent_path().string() : found;
  const hub::Manifest manifest = ManifestOf(name, FilesToExport(name, found, folder), folder, peng_home);
  hub::Progress progress("exported");
  hub::ExportModel(manifest, folder, file, &interrupted, progress);
  std::printf("%s\n", Absolute(file).c_str());
}

}  // namespace

int Pull(int argc, char** argv) {
  PullFlags flags;
  if (!ParseArguments(Describe(flags), argc, argv)) return 0;
  CheckFlags(flags);
  CatchSignals();
  const base::Settings environment = hub::HubEnvironment();
  const std::string peng_home = base::PengHome(environment);
  if (!flags.import_file.empty()) {
    hub::Progress progress("imported");
    const hub::Manifest manifest = hub::ImportModel(flags.import_file, peng_home, &interrupted, progress);
    std::printf("%s\n", hub::ModelFolder(peng_home, manifest.repo).path().c_str());
    return 0;
  }
  const std::optional<hub::RepoName> name = hub::ParseRepoName(flags.name);
  if (!name) {
    throw Error(ErrorKind::kUsage, base::Printable(flags.name), "is no name of a model",
                "write ORG/NAME or ORG/NAME:TAG");
  }
  const std::string found = FindOrPull(flags, *name, environment);
  if (flags.export_file.empty()) {
    std::printf("%s\n", found.c_str());
  } else {
    Export(*name, found, flags.export_file, peng_home);
  }
  return 0;
}

}  // namespace peng::cli
