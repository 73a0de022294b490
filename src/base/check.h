// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace peng::base {

// Prints the failed condition with its place and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace peng::base

// For peng's own invariants only: no input of a user, a file or a client may reach one. Always on.
#define PENG_CHECK(condition)                                    \
  do {                                                           \
    if (!(condition)) [[unlikely]]                               \
      ::peng::base::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)

// As PENG_CHECK, in builds without NDEBUG only: for the inside of kernels and other hot loops.
#ifdef NDEBUG
#define PENG_DCHECK(condition) \
  do {                         \
  } while (false)
#else
#define PENG_DCHECK(condition) PENG_CHECK(condition)
#endif
