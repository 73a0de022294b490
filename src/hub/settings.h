// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/options.h"

namespace peng::hub {

enum class HubKind { kHuggingFace, kModelScope };

// How a hub is reached.
struct HubSettings {
  HubKind kind = HubKind::kHuggingFace;
  std::string endpoint;         // "https://host", no '/' at the end
  std::string token;            // empty = none
  std::string offline_because;  // the variable or flag that forbids to use the network; empty = the network may be used
  std::string ca_path;          // trusted certificates in place of the system's; empty = those
  double connect_timeout_s = 10;
  double stall_timeout_s = 30;  // seconds without a byte until a transfer counts as cut
  int retries = 5;              // of a request, beyond the first try
  int workers = 4;              // files fetched at once

  bool offline() const { return !offline_because.empty(); }
};

// The folders in which models are looked for.
struct CachePaths {
  std::string peng_home;         // models/ORG/NAME
  std::string hugging_face_hub;  // models--ORG--NAME/snapshots; empty = none
  std::string model_scope;       // empty = none
};

// The variables of the process's environment that this module reads (and HOME).
base::Settings HubEnvironment();

// From PENG_HUB, PENG_OFFLINE and the variables of the hubs' own clients: HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH,
// HF_HOME, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE, MODELSCOPE_ENDPOINT, MODELSCOPE_DOMAIN, MODELSCOPE_API_TOKEN,
// SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE. `hub` is "huggingface", "modelscope", or empty for PENG_HUB's.
// Throws base::Error(kUsage) that names the variable.
HubSettings ReadHubSettings(const std::string& hub, const base::Settings& environment);

CachePaths ReadCachePaths(const base::Settings& environment);

}  // namespace peng::hub
