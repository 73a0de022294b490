// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace peng::base {
namespace {

Json Parse(std::string_view text, const JsonLimits& limits = {}) {
  auto result = ParseJson(text, limits);
  if (const auto* error = std::get_if<JsonError>(&result)) {
    ADD_FAILURE() << error->message << " at " << error->offset;
    return {};
  }
  return std::get<Json>(result);
}

// The error of a text that must be refused.
JsonError Refusal(std::string_view text, const JsonLimits& limits = {}) {
  auto result = ParseJson(text, limits);
  if (auto* error = std::get_if<JsonError>(&result)) return *error;
  ADD_FAILURE() << "accepted: " << text.substr(0, 80);
  return {};
}

TEST(Json, ParsesEveryType) {
  const Json v = Parse(R"( {"a":[1,-2,3.5,true,null,"x\u00e9\ud83d\ude00"],"b":{}} )");
  EXPECT_STREQ(v.type_name(), "object");
  const Json::Array& a = v.Find("a")->as_array();
  EXPECT_EQ(a[0].as_int(), 1);
  EXPECT_EQ(a[1].as_int(), -2);
  EXPECT_EQ(a[2].as_double(), 3.5);
  EXPECT_TRUE(a[3].as_bool());
  EXPECT_TRUE(a[4].is_null());
  EXPECT_EQ(a[5].as_string(), "xé😀");
  EXPECT_TRUE(v.Find("b")->is_object());
  EXPECT_EQ(v.Find("c"), nullptr);
  EXPECT_EQ(a[0].Find("x"), nullptr);
}

TEST(Json, KeepsMemberOrder) { EXPECT_EQ(Parse(R"({"z":1,"a":2,"m":3})").Dump(), R"({"z":1,"a":2,"m":3})"); }

TEST(Json, Integers) {
  EXPECT_EQ(Parse("9223372036854775807").as_int(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Parse("-9223372036854775808").as_int(), std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(Parse("9223372036854775808").is_int());
  EXPECT_EQ(Parse("9223372036854775808").as_double(), 9223372036854775808.0);
  EXPECT_EQ(Parse("-9223372036854775809").as_double(), -9223372036854775808.0);
  EXPECT_EQ(Parse("123456789012345678901234567890").as_double(), 123456789012345678901234567890.0);
  EXPECT_EQ(Json(uint64_t{7}).as_int(), 7);
  EXPECT_EQ(Json(std::numeric_limits<uint64_t>::max()).as_double(), 18446744073709551616.0);
  EXPECT_FALSE(Parse("1.0").is_int());
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* bad : {"",
                          " ",
                          "{",
                          "[1,]",
                          "{\"a\":1,}",
                          "nul",
                          "NaN",
                          "Infinity",
                          "-",
                          "01",
                          "+1",
                          "1e999",
                          "'a'",
                          "\"\x01\"",
                          "\"\xFF\"",
                          "\"\xED\xA0\x80\"",
                          "\"\\ud800\"",
                          "[1] 2",
                          "// c\n1",
                          "\xC3",
                          "{1:2}"}) {
    EXPECT_FALSE(Refusal(bad).message.empty()) << bad;
  }
}

TEST(Json, RefusesNulBytes) {
  EXPECT_EQ(Refusal(std::string_view("{}\0 rubbish", 11)).offset, 2u);
  EXPECT_EQ(Refusal(std::string_view("\0", 1)).offset, 0u);
}

TEST(Json, ErrorsGiveTheOffset) {
  EXPECT_EQ(Refusal("[1, x]").offset, 4u);
  EXPECT_EQ(Refusal("[1").offset, 2u);
  EXPECT_EQ(Refusal("[1] 2").offset, 4u);
}

TEST(Json, ErrorsDoNotQuoteTheInput) {
  const std::string secret = "sk-secret";
  for (const std::string& text : {"[\"" + secret + "\x01\"]", "{\"" + secret + "\":}", "[" + secret + "]",
                                  "[\"" + secret, "[\"" + secret + "\xFF\"]", std::string("[12345e999]")}) {
    const std::string message = Refusal(text).message;
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
    EXPECT_EQ(message.find("12345"), std::string::npos) << message;
    EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
    EXPECT_GT(message.size(), 5u);
    for (const char c : message) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << message;
  }
}

TEST(Json, LimitsDepth) {
  JsonLimits limits;
  limits.max_depth = 3;
  EXPECT_TRUE(Parse("[[[1]]]", limits).is_array());
  const JsonError error = Refusal("[[[[1]]]]", limits);
  EXPECT_EQ(error.offset, 3u);
  EXPECT_EQ(error.message, "nested deeper than 3 levels");
}

TEST(Json, MillionLevelsAreAnError) {
  EXPECT_EQ(Refusal(std::string(1'000'000, '[')).offset, 128u);
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"\":";
  EXPECT_EQ(Refusal(objects).message, "nested deeper than 128 levels");
}

TEST(Json, LimitsElements) {
  JsonLimits limits;
  limits.max_elements = 4;
  EXPECT_TRUE(Parse("[1,2,3]", limits).is_array());
  EXPECT_EQ(Refusal("[1,2,3,4]", limits).message, "more than 4 values");
  EXPECT_EQ(Refusal("[[],[],{},[]]", limits).message, "more than 4 values");
}

TEST(Json, DuplicateKeys) {
  EXPECT_EQ(Parse(R"({"a":1,"b":2,"a":3,"c":4,"a":5})").Dump(), R"({"a":5,"b":2,"c":4})");
  JsonLimits limits;
  limits.refuse_duplicate_keys = true;
  EXPECT_EQ(Parse(R"({"a":{"a":1},"b":{"a":1}})", limits).Dump(), R"({"a":{"a":1},"b":{"a":1}})");
  const JsonError error = Refusal(R"({"a":1,"b":2,"a":3})", limits);
  EXPECT_EQ(error.message, "duplicate key");
  EXPECT_EQ(error.offset, 15u);
}

TEST(Json, ManyKeysParseInReasonableWork) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  text.back() = '}';
  EXPECT_EQ(Parse(text).as_object().size(), 200'000u);
}

TEST(Json, Dump) {
  Json v;
  v.Set("s", "a\"\\\n\x01/é\x7F").Set("i", -5).Set("d", 0.1).Set("n", nullptr).Set("t", true);
  EXPECT_EQ(v.Dump(), "{\"s\":\"a\\\"\\\\\\n\\u0001/é\x7F\",\"i\":-5,\"d\":0.1,\"n\":null,\"t\":true}");
  v.Set("i", 6);
  EXPECT_EQ(v.Find("i")->as_int(), 6);
  EXPECT_EQ(v.as_object()[1].first, "i") << "keeps its place";
  EXPECT_EQ(Json("\xFFz").Dump(), "\"\xEF\xBF\xBDz\"");
  EXPECT_EQ(Json(std::nan("")).Dump(), "null");
  EXPECT_EQ(Json(HUGE_VAL).Dump(), "null");
  Json list;
  list.Push(1.0);
  list.Push(Json::Array());
  list.Push(Json::Object());
  EXPECT_EQ(list.Dump(), "[1.0,[],{}]");
}

TEST(Json, DoublesKeepTheirTypeAndValue) {
  EXPECT_EQ(Json(100000.0).Dump(), "100000.0");
  EXPECT_EQ(Json(-0.0).Dump(), "-0.0");
  EXPECT_EQ(Json(1e16).Dump(), "1e+16");
  EXPECT_EQ(Json(1.5e-7).Dump(), "1.5e-07");
  EXPECT_EQ(Json(0.0001).Dump(), "0.0001");
  for (const double v : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.125, 1e15, -2.5e-5}) {
    const Json back = Parse(Json(v).Dump());
    EXPECT_FALSE(back.is_int());
    EXPECT_EQ(back.as_double(), v);
  }
}

TEST(JsonDeathTest, WrongTypeIsABug) { EXPECT_DEATH(Json(1).as_string(), "is_string"); }

}  // namespace
}  // namespace peng::base
