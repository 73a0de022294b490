// SPDX-License-Identifier: Apache-2.0
#include "server/unknown_fields.h"

#include <gtest/gtest.h>

#include "server/openai_types.h"

namespace peng::server {
namespace {

using base::Json;
using Names = std::vector<std::string>;

Json Parse(const std::string& text) { return std::get<Json>(base::ParseJson(text)); }

Names Nested(const std::string& text) {
  Names names;
  AddNestedUnknownFields(Parse(text), &names);
  return names;
}

TEST(UnknownFields, AreNamedByTheirPath) {
  EXPECT_EQ(Nested(R"({"messages":[{"role":"user","content":"x"},
                        {"role":"user","foo":1,"content":[{"type":"text","text":"x","bar":2}]},
                        {"role":"assistant","tool_calls":[{"id":"1","type":"function","extra":1,
                          "function":{"name":"f","arguments":"{}","more":1}}]}]})"),
            (Names{"messages[1].foo", "messages[1].content[0].bar", "messages[2].tool_calls[0].extra",
                   "messages[2].tool_calls[0].function.more"}));
  EXPECT_EQ(Nested(R"({"stream_options":{"include_usage":true,"x":1},
                       "response_format":{"type":"json_schema","y":1,"json_schema":{"name":"n","schema":{"any":1},"z":1}},
                       "tools":[{"type":"function","t":1,"function":{"name":"f","parameters":{"free":1},"u":1}}],
                       "tool_choice":{"type":"function","v":1,"function":{"name":"f","w":1}}})"),
            (Names{"stream_options.x", "response_format.y", "response_format.json_schema.z", "tools[0].t",
                   "tools[0].function.u", "tool_choice.v", "tool_choice.function.w"}));
}

TEST(UnknownFields, FreeFormsAndWrongTypesAreLeftAlone) {
  EXPECT_EQ(Nested(R"({"metadata":{"a":{"b":1}},"chat_template_kwargs":{"c":1},"logit_bias":{"5":1}})"), Names());
  EXPECT_EQ(Nested(R"({"messages":5,"stream_options":[],"tools":{"a":1},"tool_choice":"auto","response_format":null})"),
            Names());
  EXPECT_EQ(Nested(R"({"messages":[5,null,{"content":{"a":1},"tool_calls":"x"}],"tools":[[]]})"), Names());
  EXPECT_EQ(Nested("5"), Names());
}

TEST(UnknownFields, ManyAreCutShort) {
  std::string text = R"({"messages":[)";
  for (int i = 0; i < 3000; ++i) text += R"({"foo":1},)";
  EXPECT_EQ(Nested(text + "{}]}").size(), 1000U);
  const Json warnings = FieldWarnings(Names(40, "foo"), {});
  ASSERT_EQ(warnings.as_array().size(), 33U);
  EXPECT_EQ(*warnings.as_array()[0].Find("param"), Json("foo"));
  EXPECT_EQ(*warnings.as_array()[32].Find("message"), Json("8 more unknown fields are ignored."));
}

TEST(UnknownFields, ParsersReportThem) {
  const auto chat = ParseChatRequest(Parse(R"({"messages":[{"role":"user","content":"x","opts":1}],"foo":1,"user":"u",
      "store":true,"metadata":{"k":"v"},"service_tier":"auto","safety_identifier":"s","prompt_cache_key":"k",
      "verbosity":"low","prediction":{"type":"content","content":"x"},"prompt_cache_retention":"24h"})"));
  EXPECT_EQ(std::get<ChatRequest>(chat).unknown_fields, (Names{"foo", "messages[0].opts"}));
  const auto text = ParseCompletionRequest(
      Parse(R"({"prompt":"x","stream":true,"stream_options":{"include_usage":true,"foo":1},"bar":1})"));
  EXPECT_EQ(std::get<CompletionRequest>(text).unknown_fields, (Names{"bar", "stream_options.foo"}));
  const auto tokens = ParseTokenizeRequest(Parse(R"({"prompt":"x","foo":1})"));
  EXPECT_EQ(std::get<TokenizeRequest>(tokens).unknown_fields, Names{"foo"});
  const auto ids = ParseDetokenizeRequest(Parse(R"({"tokens":[1],"foo":1})"));
  EXPECT_EQ(std::get<DetokenizeRequest>(ids).unknown_fields, Names{"foo"});
}

}  // namespace
}  // namespace peng::server
