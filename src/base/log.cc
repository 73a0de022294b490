// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <limits>

#include "base/error.h"
#include "base/line_writer.h"

namespace peng::base {
namespace {

constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error"};
constexpr const char* kCapitalNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

std::atomic<LogFormat> log_format{LogFormat::kText};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

LogLevel FromSpdlog(spdlog::level::level_enum level) {
  if (level <= spdlog::level::debug) return LogLevel::kDebug;
  if (level == spdlog::level::info) return LogLevel::kInfo;
  return level == spdlog::level::warn ? LogLevel::kWarning : LogLevel::kError;
}

// Line breaks in the way that everyone reads them; other control bytes and broken UTF-8 are replaced.
std::string OneLine(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\r') {
      escaped += "\\r";
    } else if (c == '\t') {
      escaped += "\\t";
    } else {
      escaped += c;
    }
  }
  return Printable(escaped, std::numeric_limits<size_t>::max() / 2);
}

// Plain where that can be told from the next key, quoted otherwise.
std::string FieldText(const Json& value) {
  if (!value.is_string()) return value.Dump();
  const std::string& text = value.as_string();
  const std::string shown = OneLine(text);
  const bool plain = shown == text && !text.empty() && text.find_first_of(" =\"\\") == std::string::npos;
  return plain ? text : OneLine(value.Dump());
}

// "2026-01-31", the separator, "23:59:59.123".
std::string DateAndTime(std::chrono::system_clock::time_point time, bool utc, char separator) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::tm parts{};
  utc ? ::gmtime_r(&seconds, &parts) : ::localtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}.{:03}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, separator, parts.tm_hour, parts.tm_min, parts.tm_sec, ms);
}

std::string TextHead(std::chrono::system_clock::time_point time, LogLevel level) {
  return DateAndTime(time, false, ' ') + " " + kCapitalNames[static_cast<int>(level)] + " ";
}

std::string TextPayload(std::string_view message, const Json::Object& fields) {
  std::string line = OneLine(message);
  for (const auto& [key, value] : fields) line += " " + key + "=" + FieldText(value);
  return line;
}

std::string JsonPayload(LogLevel level, std::string_view message, const Json::Object& fields) {
  Json::Object line{{"time", UtcTimestamp()}, {"level", kCapitalNames[static_cast<int>(level)]}, {"message", message}};
  line.insert(line.end(), fields.begin(), fields.end());
  return Json(std::move(line)).Dump();
}

// Fills the pattern's '*': time and level of a text line, nothing of a JSON one, which has its own.
class LineHead : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& msg, const std::tm&, spdlog::memory_buf_t& out) override {
    if (log_format == LogFormat::kJson) return;
    const std::string head = TextHead(msg.time, FromSpdlog(msg.level));
    out.append(head.data(), head.data() + head.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LineHead>(); }
};

std::string LostLine(uint64_t lost) {
  const std::string message = fmt::format("{} log lines were lost: standard error took no more", lost);
  if (log_format == LogFormat::kJson) return JsonPayload(LogLevel::kWarning, message, {}) + "\n";
  return TextHead(std::chrono::system_clock::now(), LogLevel::kWarning) + message + "\n";
}

// Never destroyed, like the logger: threads may still log while the process exits.
LineWriter& Writer() {
  static auto* const writer = new LineWriter(STDERR_FILENO, LostLine);
  return *writer;
}

class WriterSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& msg) override {
    spdlog::memory_buf_t line;
    formatter_->format(msg, line);
    Writer().Write(std::string_view(line.data(), line.size()));
  }
  void flush_() override {}
};

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* l = new spdlog::logger("peng", std::make_shared<WriterSink>());
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<LineHead>('*').set_pattern("%*%v");
    l->set_formatter(std::move(formatter));
    l->set_level(spdlog::level::info);
    return l;
  }();
  return *logger;
}

}  // namespace

std::string UtcTimestamp() { return DateAndTime(std::chrono::system_clock::now(), true, 'T') + "Z"; }

const char* LogLevelName(LogLevel level) { return kLevelNames[static_cast<int>(level)]; }

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void Log(LogLevel level, std::string_view message, const Json::Object& fields) {
  try {
    spdlog::logger& logger = Logger();
    if (!logger.should_log(ToSpdlog(level))) return;
    // A message is one line, whatever a client or a file put into it.
    const bool json = log_format == LogFormat::kJson;
    const std::string line = json ? JsonPayload(level, message, fields) : TextPayload(message, fields);
    logger.log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {
    // There is no place left to report it to.
  }
}

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }
LogLevel CurrentLogLevel() { return FromSpdlog(Logger().level()); }
void SetLogFormat(LogFormat format) { log_format = format; }
bool FlushLog() { return Writer().Flush(); }

}  // namespace peng::base
