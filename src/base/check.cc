// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace peng::base {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "peng: internal error: CHECK(%s) failed at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace peng::base
