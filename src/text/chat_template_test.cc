// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/test_data.h"

namespace peng::text {
namespace {

using base::Json;

std::string Dir() { return TestDataDir() + "/chat_templates/"; }

std::string TokenText(const Json& rendered, const char* name) {
  const Json* token = rendered.Find("special_tokens")->Find(name);
  return token != nullptr && token->is_string() ? token->as_string() : "";
}

bool Flag(const Json& options, const char* name) {
  const Json* flag = options.Find(name);
  return flag != nullptr && flag->is_bool() && flag->as_bool();
}

ChatInput InputOf(const Json& conversation) {
  ChatInput input;
  input.messages = *conversation.Find("messages");
  input.tools = *conversation.Find("tools");
  input.kwargs = *conversation.Find("kwargs");
  input.add_generation_prompt = Flag(*conversation.Find("options"), "add_generation_prompt");
  input.continue_final_message = Flag(*conversation.Find("options"), "continue_final_message");
  return input;
}

class ChatTemplateGoldenTest : public ::testing::TestWithParam<const char*> {};

// Every conversation as transformers renders it; where that fails, a refusal.
TEST_P(ChatTemplateGoldenTest, RendersLikeTransformers) {
  const std::string name = GetParam();
  if (name == "llama3_1" && ExtraDataDir() == nullptr) {
    GTEST_SKIP() << "the template of Llama 3.1 is not in tests/data: PENG_EXTRA_TEST_DATA names no folder with it";
  }
  const std::string dir = name == "llama3_1" ? std::string(ExtraDataDir()) + "/chat_templates/" : Dir();
  const Json rendered = LoadJson(dir + name + ".rendered.json");
  const ChatTemplate chat(ReadFile(dir + name + ".jinja"), TokenText(rendered, "bos_token"),
                          TokenText(rendered, "eos_token"), name);
  const Json conversations = LoadJson(Dir() + "conversations.json");
  const auto& cases = rendered.Find("cases")->as_array();
  ASSERT_EQ(cases.size(), conversations.as_array().size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Json& expected = cases[i];
    const std::string& label = expected.Find("name")->as_string();
    ASSERT_EQ(label, conversations.as_array()[i].Find("name")->as_string());
    const Json* text = expected.Find("rendered");
    if (text == nullptr) text = expected.Find("rendered_with_from_json_filter");
    try {
      const std::string ours = chat.Render(InputOf(conversations.as_array()[i]));
      if (text == nullptr) {
        ADD_FAILURE() << label << ": rendered, expected " << expected.Find("message")->as_string() << "\n" << ours;
      } else {
        EXPECT_EQ(ours, text->as_string()) << label;
      }
    } catch (const base::Error& e) {
      EXPECT_EQ(e.kind(), base::ErrorKind::kUsage);
      EXPECT_EQ(text, nullptr) << label << ": " << e.what();
      if (expected.Find("error") != nullptr && expected.Find("error")->as_string() == "TemplateError") {
        EXPECT_NE(std::string(e.what()).find(expected.Find("message")->as_string()), std::string::npos) << e.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatTemplateGoldenTest,
                         ::testing::Values("deepseek_v3", "deepseek_v3_1", "deepseek_v3_2", "deepseek_v4",
                                           "llamacpp_deepseek_r1", "qwen2_5", "qwen3", "r1_distill_llama_8b",
                                           "r1_distill_qwen_32b", "r1_distill_qwen_gguf", "smollm2", "llama3_1"),
                         [](const auto& info) { return std::string(info.param); });

std::string Rendered(std::string_view source, const char* messages = "[]", const char* kwargs = "{}") {
  ChatInput input;
  input.messages = std::get<Json>(base::ParseJson(messages));
  input.kwargs = std::get<Json>(base::ParseJson(kwargs));
  return ChatTemplate(source, "<s>", "</s>", "t").Render(input);
}

std::string RefusalOf(std::string_view source, const char* messages = "[]") {
  try {
    return "rendered: " + Rendered(source, messages);
  } catch (const base::Error& e) {
    return e.what();
  }
}

TEST(ChatTemplateTest, Variables) {
  EXPECT_EQ(Rendered("{{ bos_token }}{{ tools is none }}{{ add_generation_prompt }}{{ eos_token }}"),
            "<s>TrueTrue</s>");
  EXPECT_EQ(Rendered("{{ thinking }}|{{ nothing }}|{{ bos_token }}", "[]", R"({"thinking": 3, "bos_token": "B"})"),
            "3||B");
  EXPECT_EQ(Rendered("{{ strftime_now('%Y')|length }}{{ strftime_now('%%') }}"), "4%");
}

TEST(ChatTemplateTest, VariablesAreNotTheConversation) {
  EXPECT_EQ(Rendered("{{ messages[0] }}{{ tools is none }}{{ add_generation_prompt }}", R"(["own"])",
                     R"({"messages": ["other"], "tools": [1], "add_generation_prompt": false})"),
            "ownTrueTrue");
}

TEST(ChatTemplateTest, JsonAsPythonWritesIt) {
  const char* value = R"([{"b": 1.0, "a": "<é\"\n&'>", "c": [], "d": {}, "e": [1e16, null, true, -3]}])";
  EXPECT_EQ(Rendered("{{ messages | tojson }}", value),
            R"([{"b": 1.0, "a": "<é\"\n&'>", "c": [], "d": {}, "e": [1e+16, null, true, -3]}])");
  EXPECT_EQ(Rendered("{{ messages[0].e | tojson(indent=2) }}", value), "[\n  1e+16,\n  null,\n  true,\n  -3\n]");
  EXPECT_EQ(Rendered("{{ messages[0].a | tojson(ensure_ascii=true) }}", value), R"("<\u00e9\"\n&'>")");
  EXPECT_EQ(Rendered("{{ messages[0].e | tojson(separators=(',', ':')) }}", value), "[1e+16,null,true,-3]");
}

TEST(ChatTemplateTest, BlocksAreTrimmed) {
  EXPECT_EQ(Rendered("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(
      Rendered("{% for m in messages %}\n{% generation %}\n{{ m }}\n{% endgeneration %}\n{% endfor %}", R"(["x"])"),
      "x\n");
}

TEST(ChatTemplateTest, TheTemplatesOwnWords) {
  EXPECT_EQ(RefusalOf("{{ raise_exception('Only user and assistant roles are supported!') }}"),
            "messages: Only user and assistant roles are supported!");
  EXPECT_NE(RefusalOf("{{ messages[0].content + 'x' }}", R"([{"content": null}])").find("chat template fails"),
            std::string::npos);
  EXPECT_NE(RefusalOf("{{ a.b.c }}").find("chat template fails"), std::string::npos);
  EXPECT_NE(RefusalOf("{% if %}").find("refused"), std::string::npos);
}

TEST(ChatTemplateTest, HostileTemplatesEnd) {
  const char* loops =
      "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{{ c }}"
      "{% endfor %}{% endfor %}{% endfor %}";
  EXPECT_NE(RefusalOf(loops).find("fuel"), std::string::npos);
  EXPECT_NE(RefusalOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("fails"), std::string::npos);
  EXPECT_NE(
      RefusalOf("{% set n = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}")
          .find("fuel"),
      std::string::npos);
  EXPECT_NE(RefusalOf(std::string(100'000, '(').insert(0, "{{ ")).find("refused"), std::string::npos);
  EXPECT_NE(RefusalOf("{{ 'x' * 999999999999 }}").find("fails"), std::string::npos);
}

TEST(ChatTemplateTest, LongConversationsAreNotCut) {
  std::string messages = "[";
  for (int i = 0; i < 5000; ++i)
    messages += std::string(i > 0 ? "," : "") + "{\"content\":\"" + std::string(500, 'x') + "\"}";
  messages += "]";
  EXPECT_EQ(Rendered("{% for m in messages %}{{ m.content | trim }}{% endfor %}", messages.c_str()).size(), 2'500'000u);
}

TEST(ChatTemplateTest, FindsTheTemplateOfAConfig) {
  const auto find = [](const char* config, const char* name) {
    return FindChatTemplate(std::get<Json>(base::ParseJson(config)), name).value_or("none");
  };
  EXPECT_EQ(find(R"({"chat_template": "T"})", "default"), "T");
  EXPECT_EQ(find(R"({"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "U"}]})",
                 "tool_use"),
            "U");
  EXPECT_EQ(find(R"({"chat_template": [{"name": 3}, 4]})", "default"), "none");
  EXPECT_EQ(find("{}", "default"), "none");
}

// As many as fit into a request; setting them one by one among the others would take minutes.
TEST(ChatTemplateTest, ManyVariablesCostNoMoreThanTheirText) {
  const ChatTemplate tmpl("{{ bos_token }}{{ v399999 }}{{ messages[0].content }}{{ documents }}", "<s>", "</s>",
                          "test");
  ChatInput input;
  input.messages = Json(Json::Array{Json(Json::Object{{"role", "user"}, {"content", "hi"}})});
  Json::Object variables{{"messages", "not these"}, {"bos_token", "<b>"}};
  for (int i = 0; i < 400'000; ++i) variables.emplace_back("v" + std::to_string(i), i);
  input.kwargs = Json(std::move(variables));
  EXPECT_EQ(tmpl.Render(input), "<b>399999hiNone");
}

}  // namespace
}  // namespace peng::text
