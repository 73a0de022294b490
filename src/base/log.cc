// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <limits>

#include "base/error.h"

namespace peng::base {
namespace {

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

// The level in capitals; the library only knows small letters.
class CapitalLevel : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& msg, const std::tm&, spdlog::memory_buf_t& out) override {
    std::string_view name = "ERROR";
    if (msg.level == spdlog::level::debug) name = "DEBUG";
    if (msg.level == spdlog::level::info) name = "INFO";
    if (msg.level == spdlog::level::warn) name = "WARNING";
    out.append(name.data(), name.data() + name.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<CapitalLevel>(); }
};

// Never destroyed: threads may still log while the process exits.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* l = new spdlog::logger("peng", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<CapitalLevel>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %* %v");
    l->set_formatter(std::move(formatter));
    l->set_level(spdlog::level::info);
    l->flush_on(spdlog::level::trace);
    return l;
  }();
  return *logger;
}

}  // namespace

void Log(LogLevel level, std::string_view message) {
  try {
    spdlog::logger& logger = Logger();
    if (!logger.should_log(ToSpdlog(level))) return;
    // A message is one line, whatever a client or a file put into it.
    const std::string line = Printable(message, std::numeric_limits<size_t>::max() / 2);
    logger.log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {
    // There is no place left to report it to.
  }
}

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

}  // namespace peng::base
