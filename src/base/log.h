// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace peng::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// "debug", "info", "warning", "error", as --log-level has them.
const char* LogLevelName(LogLevel level);
std::optional<LogLevel> ParseLogLevel(std::string_view name);

// "2026-01-31T23:59:59.123Z", now.
std::string UtcTimestamp();

// Writes one line to standard error. Text: time, LEVEL in capitals, message, then key=value for each field; line breaks
// are escaped. JSON: an object of time, level, message and the fields. Thread-safe; never throws, and never waits for
// whoever reads standard error: lines are dropped and counted instead.
void Log(LogLevel level, std::string_view message, const Json::Object& fields = {});

// Messages below `level` are dropped.
void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();
void SetLogFormat(LogFormat format);
// Tries again to write lines that could not be written. True if none is left.
bool FlushLog();

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
