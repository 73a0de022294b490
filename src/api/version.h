// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace peng::api {

std::string Version();  // "0.1.0"

}  // namespace peng::api
