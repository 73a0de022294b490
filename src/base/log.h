// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace peng::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Writes one line to standard error: time, LEVEL in capitals, message. Thread-safe; never throws.
void Log(LogLevel level, std::string_view message);

// Messages below `level` are dropped.
void SetLogLevel(LogLevel level);

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace peng::base
