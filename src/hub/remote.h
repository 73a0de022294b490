// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hub/http.h"
#include "hub/remote_file.h"
#include "hub/settings.h"

namespace peng::hub {

struct RemoteListing {
  std::string revision;  // as asked for, or the hub's default branch
  std::string commit;    // empty if the hub does not tell
  std::vector<RemoteFile> files;
};

// Says that something went wrong and is tried again.
using Notice = std::function<void(const std::string& line)>;

// One model on a hub, in the hub's protocol.
class Remote {
 public:
  Remote(const HubSettings& settings, std::string repo, std::string revision);
  virtual ~Remote() = default;

  // What the model consists of. Throws base::Error: kUsage where the name, revision or token is at fault.
  virtual RemoteListing List(HttpClient& client, const Notice& notice) = 0;

  // The request for a file's bytes; after List().
  virtual HttpRequest FileRequest(const RemoteFile& file) const = 0;

  // Throws the base::Error for a reply that is no success.
  [[noreturn]] virtual void Refuse(const HttpReply& reply, const std::string& what) const = 0;

  const HubSettings& settings() const { return settings_; }
  const std::string& repo() const { return repo_; }
  std::string page() const;  // the model's page, for people

 protected:
  HttpRequest Request(const std::string& url) const;
  HttpReply GetSmall(HttpClient& client, const std::string& url, const std::string& what, const Notice& notice) const;

  HubSettings settings_;
  std::string repo_;
  std::string revision_;
  std::vector<std::string> secret_headers_;
};

std::unique_ptr<Remote> MakeRemote(const HubSettings& settings, const std::string& repo, const std::string& revision);

HttpOptions MakeHttpOptions(const HubSettings& settings, const std::atomic<bool>* cancel);

// Whether a reply may be followed by a better one: 408, 429 and 5xx.
bool IsPassing(int status);

// Seconds to wait before try number `attempt` (1 = the first repetition): what the server asked for with Retry-After,
// or twice as long each time, from half a second to 30. More than 5 minutes asked for is -1: do not wait for that.
double BackoffSeconds(int attempt, const HttpReply& reply);

// Waits, and returns false as soon as `cancel` is set.
bool WaitFor(double seconds, const std::atomic<bool>* cancel);

[[noreturn]] void ThrowCancelled(const std::string& where);

}  // namespace peng::hub
