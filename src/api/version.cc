// SPDX-License-Identifier: Apache-2.0
#include "api/version.h"

namespace peng::api {

std::string Version() { return PENG_VERSION; }

}  // namespace peng::api
