// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

namespace peng::base {
namespace {

std::string Logged(LogLevel level, std::string_view message) {
  testing::internal::CaptureStderr();
  Log(level, message);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, LineHasTimeLevelAndMessage) {
  const std::regex line(R"(20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[123]\d) \d\d:\d\d:\d\d\.\d{3} INFO ready on port 8000\n)");
  EXPECT_TRUE(std::regex_match(Logged(LogLevel::kInfo, "ready on port 8000"), line));
  EXPECT_NE(Logged(LogLevel::kWarning, "x").find(" WARNING x"), std::string::npos);
  EXPECT_NE(Logged(LogLevel::kError, "x").find(" ERROR x"), std::string::npos);
}

TEST(Log, FormatsArguments) {
  testing::internal::CaptureStderr();
  LogInfo("{} of {}", 1, "2");
  EXPECT_NE(testing::internal::GetCapturedStderr().find(" INFO 1 of 2\n"), std::string::npos);
}

TEST(Log, DropsWhatIsBelowTheLevel) {
  EXPECT_EQ(Logged(LogLevel::kDebug, "x"), "");
  SetLogLevel(LogLevel::kDebug);
  EXPECT_NE(Logged(LogLevel::kDebug, "x").find(" DEBUG x"), std::string::npos);
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(Logged(LogLevel::kWarning, "x"), "");
  SetLogLevel(LogLevel::kInfo);
}

TEST(Log, AMessageIsOneLine) {
  const std::string out = Logged(LogLevel::kInfo, "a\n2026-01-01 00:00:00.000 ERROR forged {}");
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  EXPECT_NE(out.find("{}"), std::string::npos) << "braces of a message are no format";
  EXPECT_NE(out.find(" INFO a\\n2026-01-01"), std::string::npos) << "the break can still be seen";
}

TEST(Log, FieldsFollowTheMessage) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "done", {{"request_id", "abc-1"}, {"tokens", 5}, {"note", "a b=\"c\"\n"}, {"none", ""}});
  EXPECT_NE(
      testing::internal::GetCapturedStderr().find(R"( INFO done request_id=abc-1 tokens=5 note="a b=\"c\"\n" none="")"
                                                  "\n"),
      std::string::npos);
}

TEST(Log, JsonLines) {
  SetLogFormat(LogFormat::kJson);
  testing::internal::CaptureStderr();
  Log(LogLevel::kWarning, "two\nlines \xff", {{"request_id", "r"}, {"tokens", 5}});
  const std::string out = testing::internal::GetCapturedStderr();
  SetLogFormat(LogFormat::kText);
  ASSERT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const Json line = std::get<Json>(ParseJson(out));
  EXPECT_TRUE(
      std::regex_match(line.Find("time")->as_string(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
  EXPECT_EQ(*line.Find("level"), Json("WARNING"));
  EXPECT_EQ(*line.Find("message"), Json("two\nlines \xEF\xBF\xBD"));
  EXPECT_EQ(*line.Find("request_id"), Json("r"));
  EXPECT_EQ(*line.Find("tokens"), Json(5));
}

TEST(Log, LevelsByName) {
  for (const char* name : {"debug", "info", "warning", "error"}) {
    SetLogLevel(*ParseLogLevel(name));
    EXPECT_STREQ(LogLevelName(CurrentLogLevel()), name);
  }
  EXPECT_EQ(ParseLogLevel("INFO"), std::nullopt);
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace peng::base
