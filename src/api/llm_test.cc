// SPDX-License-Identifier: Apache-2.0
#include "api/llm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stop_token>
#include <thread>

#include "api/prepare.h"
#include "api/test_llm.h"
#include "base/error.h"

namespace peng::api {
namespace {

using base::Json;
using std::chrono::milliseconds;

constexpr char kReply[] = "Hello, world! 你好，世界 — naïve café\nsecond line";

std::vector<Delta> Complete(Llm& llm, GenerateRequest request) {
  auto outcome = llm.Complete(std::move(request));
  if (auto* refusal = std::get_if<Refusal>(&outcome)) throw std::runtime_error(refusal->message);
  return std::get<std::vector<Delta>>(std::move(outcome));
}

GenerateRequest Ask(GenerationParams params = {}) {
  GenerateRequest request;
  request.prompt = std::string("Say it");
  request.params = std::move(params);
  return request;
}

Refusal RefusalOf(Llm& llm, GenerateRequest request) {
  auto outcome = llm.Prepare(std::move(request));
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) return *refusal;
  return {Refusal::Kind::kInvalid, "not refused", "none"};
}

TEST(Llm, WholeReplyUpToTheEndToken) {
  TestLlm test({.next = Saying(kReply)});
  const auto replies = Complete(*test.llm, Ask());
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].text, kReply);
  EXPECT_EQ(replies[0].finish, Finish::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(replies[0].stop_reason));
  EXPECT_EQ(replies[0].token_ids.back(), kTestEos);
}

TEST(Llm, LengthEndsTheReply) {
  TestLlm test({.next = Saying(kReply)});
  GenerationParams params;
  params.max_tokens = 3;
  const auto replies = Complete(*test.llm, Ask(params));
  EXPECT_EQ(replies[0].finish, Finish::kLength);
  EXPECT_EQ(replies[0].token_ids.size(), 3U);
  EXPECT_EQ(replies[0].text, TestTokenizer()->Decode(replies[0].token_ids, true));
}

// Wherever the stop string is cut out of the reply, the text is the reply up to it, and the engine is told to stop.
TEST(Llm, StopStringsAtEveryCut) {
  const std::string reply = kReply;
  for (const int32_t per_step : {1, 3}) {
    for (size_t from = 0; from < reply.size(); ++from) {
      for (const size_t length : {size_t{1}, size_t{4}}) {
        const std::string stop = reply.substr(from, length);
        if (reply.find(stop) != from || (static_cast<unsigned char>(stop[0]) & 0xC0) == 0x80) continue;
        if ((static_cast<unsigned char>(reply[std::min(from + length, reply.size() - 1)]) & 0xC0) == 0x80) continue;
        TestLlm test({.next = Saying(kReply), .tokens_per_step = per_step});
        GenerationParams params;
        params.stop = {stop};
        const auto replies = Complete(*test.llm, Ask(params));
        EXPECT_EQ(replies[0].text, reply.substr(0, from)) << stop;
        EXPECT_EQ(replies[0].finish, Finish::kStop);
        EXPECT_EQ(std::get<std::string>(replies[0].stop_reason), stop);
        EXPECT_EQ(test.llm->RunningGenerations(), 0);
      }
    }
  }
}

TEST(Llm, StopStringIsKeptOnRequest) {
  TestLlm test({.next = Saying(kReply)});
  GenerationParams params;
  params.stop = {"world"};
  params.include_stop_str_in_output = true;
  EXPECT_EQ(Complete(*test.llm, Ask(params))[0].text, "Hello, world");
}

TEST(Llm, StopStringThatIsAHiddenToken) {
  TestLlm test({.next = Saying("Hello<｜User｜>more")});
  GenerationParams params;
  params.stop = {"<｜User｜>"};
  const auto replies = Complete(*test.llm, Ask(params));
  EXPECT_EQ(replies[0].text, "Hello");
  EXPECT_EQ(std::get<std::string>(replies[0].stop_reason), "<｜User｜>");
}

TEST(Llm, StopTokenIsReportedAndNotShown) {
  const std::vector<int32_t> ids = TestTokenizer()->Encode("Hello, world!", false);
  TestLlm test({.next = Saying("Hello, world!")});
  GenerationParams params;
  params.stop_token_ids = {ids[1]};
  const auto replies = Complete(*test.llm, Ask(params));
  EXPECT_EQ(replies[0].text, TestTokenizer()->Decode(std::vector<int32_t>{ids[0]}, true));
  EXPECT_EQ(std::get<int32_t>(replies[0].stop_reason), ids[1]);
  EXPECT_EQ(replies[0].token_ids.size(), 2U);
}

TEST(Llm, StopStringsWaitForMinTokens) {
  TestLlm test({.next = Saying("aXbXcXd")});
  GenerationParams params;
  params.stop = {"X"};
  params.min_tokens = 3;
  const auto replies = Complete(*test.llm, Ask(params));
  EXPECT_GT(replies[0].token_ids.size(), 3U);
  EXPECT_EQ(replies[0].finish, Finish::kStop);
  EXPECT_NE(replies[0].text.find('X'), std::string::npos);
}

TEST(Llm, ChoicesShareThePromptAndDiffer) {
  TestLlm test({});
  GenerationParams params;
  params.n = 3;
  params.seed = 7;
  params.max_tokens = 4;
  const auto replies = Complete(*test.llm, Ask(params));
  ASSERT_EQ(replies.size(), 3U);
  EXPECT_NE(replies[0].token_ids, replies[1].token_ids);
  const auto specs = test.engine->specs();
  ASSERT_EQ(specs.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(specs[i].sampling.choice, static_cast<int32_t>(i));
    EXPECT_EQ(specs[i].sampling.seed, 7U);
    EXPECT_EQ(specs[i].prompt, specs[0].prompt);
  }
}

TEST(Llm, WithoutASeedRequestsGetDifferentOnes) {
  TestLlm test({});
  GenerationParams params;
  params.max_tokens = 1;
  Complete(*test.llm, Ask(params));
  Complete(*test.llm, Ask(params));
  EXPECT_NE(test.engine->specs()[0].sampling.seed, test.engine->specs()[1].sampling.seed);
}

TEST(Llm, DroppingAGenerationAbortsIt) {
  TestLlm test({.next = [](const auto&, int32_t) { return 20; }, .step = milliseconds(1)});
  auto prepared = test.llm->Prepare(Ask());
  std::atomic<int> deltas = 0;
  {
    auto started = test.llm->Start(std::get<PreparedRequest>(prepared), [&](const Delta&) { ++deltas; });
    while (deltas == 0) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(test.llm->RunningGenerations(), 1);
  }
  EXPECT_EQ(test.llm->RunningGenerations(), 0);
  EXPECT_EQ(test.engine->aborts(), 1);
}

TEST(Llm, DeadEngineEndsItsRequests) {
  TestLlm test({.next = [](const auto&, int32_t) { return 20; }, .step = milliseconds(1)});
  test.engine->set_health(engine::EngineHealth::kDead);
  const auto replies = Complete(*test.llm, Ask());
  EXPECT_EQ(replies[0].finish, Finish::kError);
  EXPECT_FALSE(replies[0].error.empty());
}

TEST(Llm, FailedRequestReportsTheError) {
  TestLlm test({.fail_at = 2});
  const auto replies = Complete(*test.llm, Ask());
  EXPECT_EQ(replies[0].finish, Finish::kError);
  EXPECT_EQ(replies[0].error, "the fake engine fails here");
  EXPECT_EQ(replies[0].token_ids.size(), 2U);
}

TEST(Llm, PromptLogprobsComeOnceWithNothingForTheFirstToken) {
  TestLlm test({});
  GenerationParams params;
  params.prompt_logprobs = 2;
  params.logprobs = 1;
  params.max_tokens = 2;
  const auto replies = Complete(*test.llm, Ask(params));
  const auto& positions = replies[0].prompt_logprobs;
  const std::vector<int32_t> prompt = test.engine->specs()[0].prompt;
  ASSERT_EQ(positions.size(), prompt.size());
  EXPECT_FALSE(positions[0]);
  EXPECT_EQ(positions[1]->sampled.id, prompt[1]);
  EXPECT_EQ(positions[1]->top.size(), 2U);
  ASSERT_EQ(replies[0].logprobs.size(), 2U);
  EXPECT_EQ(replies[0].logprobs[0].sampled.bytes, TestTokenizer()->TokenBytes(replies[0].token_ids[0]));
}

ChatPrompt Chat(const char* role, const char* content) {
  ChatPrompt chat;
  chat.messages = Json::Array{Json::Object{{"role", role}, {"content", content}}};
  return chat;
}

TEST(Llm, ChatHasOneBos) {
  TestLlm test({});
  const auto ids = std::get<0>(test.llm->Tokenize(Chat("user", "Hi")));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 0), 1);
  EXPECT_EQ(ids.front(), 0);
  const auto text = std::get<0>(test.llm->Tokenize(std::string("<｜begin▁of▁sentence｜>Hi")));
  EXPECT_EQ(std::count(text.begin(), text.end(), 0), 1);
}

TEST(Llm, ContinueFinalMessageCutsBehindIt) {
  TestLlm test({});
  ChatPrompt chat = Chat("assistant", "The answer is");
  chat.continue_final_message = true;
  chat.add_generation_prompt = false;
  const auto ids = std::get<0>(test.llm->Tokenize(chat));
  const std::string text = TestTokenizer()->Decode(ids, false);
  EXPECT_TRUE(text.ends_with("The answer is")) << text;
}

TEST(Llm, MaxTokensIsClampedToTheContext) {
  TestLlm test({});
  GenerationParams params;
  params.max_tokens = 1'000'000;
  params.ignore_eos = true;
  Complete(*test.llm, Ask(params));
  const auto spec = test.engine->specs()[0];
  EXPECT_EQ(spec.max_tokens, 256 - static_cast<int32_t>(spec.prompt.size()));
}

TEST(Llm, TinyTemperatureIsGreedy) {
  TestLlm test({});
  GenerationParams params;
  params.max_tokens = 1;
  params.temperature = 1e-6;
  params.top_p = 0.5;
  Complete(*test.llm, Ask(params));
  EXPECT_EQ(test.engine->specs()[0].sampling.temperature, 0);
  EXPECT_EQ(test.engine->specs()[0].sampling.top_p, 1);
  params.temperature = 0.001;
  Complete(*test.llm, Ask(params));
  EXPECT_EQ(test.engine->specs()[1].sampling.temperature, 0.01);
}

TEST(Llm, DefaultsComeFromTheModel) {
  auto engine = std::make_unique<FakeEngine>(FakeEngine::Options{});
  FakeEngine* fake = engine.get();
  LlmParts parts = TestParts(std::move(engine));
  parts.generation_config = Json::Object{{"temperature", 0.6}, {"top_p", 0.95}, {"top_k", 40}, {"max_new_tokens", 9}};
  Llm llm(std::move(parts));
  GenerationParams params;
  params.top_p = 0.5;
  Complete(llm, Ask(params));
  const auto spec = fake->specs()[0];
  EXPECT_EQ(spec.sampling.temperature, 0.6);
  EXPECT_EQ(spec.sampling.top_p, 0.5);
  EXPECT_EQ(spec.sampling.top_k, 40);
  EXPECT_EQ(spec.max_tokens, 9);
}

std::string ConfigError(const char* field, Json value) {
  try {
    CheckGenerationConfig(Json(Json::Object{{field, std::move(value)}}), "m/generation_config.json");
  } catch (const base::Error& e) {
    EXPECT_EQ(e.kind(), base::ErrorKind::kModelFile);
    return e.what();
  }
  return "";
}

TEST(Llm, DefaultsOfTheModelAreChecked) {
  EXPECT_EQ(
      ConfigError("top_p", -5),
      "m/generation_config.json: \"top_p\" is -5, must be in (0, 1]; correct it, or use --generation-config vllm, "
      "which leaves the file's values out");
  EXPECT_NE(ConfigError("temperature", "x").find("\"temperature\" is \"x\", must be in [0, 2]"), std::string::npos);
  for (const char* field : {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens"}) {
    for (const Json& bad : {Json(1e300), Json(-5), Json("1"), Json(true), Json(Json::Array())}) {
      EXPECT_NE(ConfigError(field, bad), "") << field << " " << bad.Dump();
    }
    EXPECT_EQ(ConfigError(field, nullptr), "") << field;
    EXPECT_EQ(ConfigError(field, 1), "") << field;
  }
  EXPECT_NE(ConfigError("top_p", 0), "");
  EXPECT_NE(ConfigError("top_k", 1.5), "");
  EXPECT_EQ(ConfigError("top_k", 50.0), "");
  EXPECT_EQ(ConfigError("top_k", -1), "");
  EXPECT_EQ(ConfigError("max_length", 1e300), "");
  CheckGenerationConfig(nullptr, "none");
}

TEST(Llm, LogitBiasIsClamped) {
  TestLlm test({});
  GenerationParams params;
  params.max_tokens = 1;
  params.logit_bias = {{5, 1000.0F}, {6, -1000.0F}};
  Complete(*test.llm, Ask(params));
  const auto bias = test.engine->specs()[0].sampling.logit_bias;
  EXPECT_EQ(bias[0].second, 100.0F);
  EXPECT_EQ(bias[1].second, -100.0F);
}

// Lists as long as a body may make them: bounded by the vocabulary, and one for all choices.
TEST(Llm, ListsOfIdsAreSortedOnceAndShared) {
  TestLlm test({});
  GenerationParams params;
  params.n = 3;
  params.max_tokens = 1;
  params.min_tokens = 1;
  std::vector<int32_t> many;
  for (int i = 0; i < 500'000; ++i) many.push_back(511 - i % 500);
  params.stop_token_ids = many;
  many.push_back(3);
  params.allowed_token_ids = std::move(many);
  params.logit_bias = {{7, 1.0F}, {5, 2.0F}, {7, 3.0F}, {6, -500.0F}};
  params.stop = {std::string(4096, 'x')};
  Complete(*test.llm, Ask(params));
  const auto specs = test.engine->specs();
  ASSERT_EQ(specs.size(), 3U);
  const sched::SamplingParams& p = specs[0].sampling;
  EXPECT_EQ(specs[0].stop_token_ids.size(), 500U);
  EXPECT_TRUE(std::is_sorted(specs[0].stop_token_ids.begin(), specs[0].stop_token_ids.end()));
  EXPECT_EQ(p.allowed_token_ids.size(), 501U);
  EXPECT_EQ(p.allowed_token_ids[0], 3);
  const std::vector<std::pair<int32_t, float>> biases{{5, 2.0F}, {6, -100.0F}, {7, 3.0F}};
  EXPECT_EQ(p.logit_bias.items(), biases) << "the last of an id counts";
  for (const sched::RequestSpec& spec : specs) {
    EXPECT_EQ(&spec.stop_token_ids.items(), &specs[0].stop_token_ids.items());
    EXPECT_EQ(&spec.sampling.allowed_token_ids.items(), &p.allowed_token_ids.items());
    EXPECT_EQ(&spec.sampling.logit_bias.items(), &p.logit_bias.items());
  }
}

// 450,000 times 450,000 comparisons would take minutes.
TEST(Llm, LongListsAreComparedInOnePass) {
  LlmParts parts = TestParts(std::make_unique<FakeEngine>());
  parts.vocab_size = 1 << 20;
  GenerationParams params;
  params.min_tokens = 1;
  std::vector<int32_t> many(450'000);
  std::iota(many.rbegin(), many.rend(), 100);
  params.stop_token_ids = many;
  params.allowed_token_ids = many;
  ASSERT_FALSE(ResolveParams(parts, 3, &params));
  const auto refusal = CheckAllowedTokens(parts, params, {});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->field, "allowed_token_ids");
  many.push_back(99);
  params.allowed_token_ids = many;
  ASSERT_FALSE(ResolveParams(parts, 3, &params));
  EXPECT_FALSE(CheckAllowedTokens(parts, params, {})) << "one of them may be chosen";
}

TEST(Llm, APreparedSiblingSharesItsLists) {
  TestLlm test({});
  GenerationParams params;
  params.stop_token_ids = {9, 8, 9};
  params.bad_words = {"ab"};
  const auto first = std::get<PreparedRequest>(test.llm->Prepare(Ask(params)));
  const auto second = std::get<PreparedRequest>(test.llm->Prepare(Ask(params), &first));
  EXPECT_EQ(&second.params.stop_token_ids.items(), &first.params.stop_token_ids.items());
  EXPECT_FALSE(first.bad_words.empty());
  EXPECT_EQ(&second.bad_words.items(), &first.bad_words.items());
}

TEST(Llm, AStartThatIsStoppedQueuesNothingMore) {
  TestLlm test({});
  GenerationParams params;
  params.n = 5;
  const auto prepared = std::get<PreparedRequest>(test.llm->Prepare(Ask(params)));
  std::stop_source stop;
  stop.request_stop();
  auto started = test.llm->Start(prepared, [](const Delta&) {}, stop.get_token());
  EXPECT_TRUE(std::holds_alternative<std::shared_ptr<Generation>>(started));
  EXPECT_TRUE(test.engine->specs().empty());
}

TEST(Llm, PrioritiesWantAPriorityScheduler) {
  LlmParts parts = TestParts(std::make_unique<FakeEngine>());
  GenerationParams params;
  params.priority = -2;
  GenerationParams same = params;
  const auto refusal = ResolveParams(parts, 3, &params);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->field, "priority");
  EXPECT_NE(refusal->message.find("Got priority -2 but Priority scheduling is not enabled"), std::string::npos);
  parts.priority_scheduling = true;
  EXPECT_FALSE(ResolveParams(parts, 3, &same));
}

struct BadValue {
  const char* field;
  const char* message;
  void (*set)(GenerationParams& p);
};

TEST(Llm, RefusesValuesOutOfRange) {
  const BadValue cases[] = {
      {"temperature", "temperature must be in [0, 2], got -1.0.", [](auto& p) { p.temperature = -1; }},
      {"temperature", "temperature must be in [0, 2], got 999999.0.", [](auto& p) { p.temperature = 999999; }},
      {"top_p", "top_p must be in (0, 1], got 0.0.", [](auto& p) { p.top_p = 0; }},
      {"top_p", "top_p must be in (0, 1], got 2.0.", [](auto& p) { p.top_p = 2; }},
      {"top_k", "top_k must be 0 or -1 (disable), or at least 1, got -2.", [](auto& p) { p.top_k = -2; }},
      {"min_p", "min_p must be in [0, 1], got 1.5.", [](auto& p) { p.min_p = 1.5; }},
      {"repetition_penalty", "repetition_penalty must be greater than zero, got 0.0.",
       [](auto& p) { p.repetition_penalty = 0; }},
      {"repetition_penalty", "repetition_penalty must be in [0.0001, 10000], got 1e-320.",
       [](auto& p) { p.repetition_penalty = 1e-320; }},
      {"repetition_penalty", "repetition_penalty must be in [0.0001, 10000], got 1e+308.",
       [](auto& p) { p.repetition_penalty = 1e308; }},
      {"presence_penalty", "presence_penalty must be in [-2, 2], got 3.0.", [](auto& p) { p.presence_penalty = 3; }},
      {"frequency_penalty", "frequency_penalty must be in [-2, 2], got -3.0.",
       [](auto& p) { p.frequency_penalty = -3; }},
      {"n", "n must be in [1, 16384], got 0.", [](auto& p) { p.n = 0; }},
      {"n", "n must be in [1, 16384], got 1000000.", [](auto& p) { p.n = 1000000; }},
      {"n", "n must be 1 when using greedy sampling, got 2.", [](auto& p) { p.n = 2, p.temperature = 0; }},
      {"max_tokens", "max_tokens must be at least 1, got -5.", [](auto& p) { p.max_tokens = -5; }},
      {"min_tokens", "min_tokens must be greater than or equal to 0, got -1.", [](auto& p) { p.min_tokens = -1; }},
      {"min_tokens", "min_tokens must be less than or equal to max_tokens=2, got 3.",
       [](auto& p) { p.max_tokens = 2, p.min_tokens = 3; }},
      {"logprobs", "Requested sample logprobs of 21, which is greater than max allowed: 20",
       [](auto& p) { p.logprobs = 21; }},
      {"prompt_logprobs", "Requested prompt logprobs of -1, which is greater than max allowed: 20",
       [](auto& p) { p.prompt_logprobs = -1; }},
      {"logit_bias", "token_id(s) [512, -1] in logit_bias contain out-of-vocab token ids. Vocabulary size: 512",
       [](auto& p) { p.logit_bias = {{512, 1.0F}, {-1, 1.0F}}; }},
      {"stop_token_ids", "token_id(s) [600] in stop_token_ids contain out-of-vocab token ids. Vocabulary size: 512",
       [](auto& p) { p.stop_token_ids = {600}; }},
      {"allowed_token_ids", "allowed_token_ids must not be empty.",
       [](auto& p) { p.allowed_token_ids = std::vector<int32_t>(); }},
      {"allowed_token_ids",
       "allowed_token_ids leaves no token to choose: min_tokens forbids those that end the reply, bad_words the "
       "others.",
       [](auto& p) { p.allowed_token_ids = {kTestEos, 9}, p.stop_token_ids = {9}, p.min_tokens = 1; }},
      {"stop", "stop cannot contain an empty string.", [](auto& p) { p.stop = {""}; }},
      {"stop", "stop accepts at most 4 strings, got 5.", [](auto& p) { p.stop = {"a", "b", "c", "d", "e"}; }},
      {"bad_words", "bad_words cannot contain an empty string.", [](auto& p) { p.bad_words = {""}; }},
      {"bad_words", "bad_words accepts strings of at most 4096 bytes, got 5000.",
       [](auto& p) { p.bad_words = {std::string(5000, 'x')}; }},
  };
  TestLlm test({});
  for (const BadValue& bad : cases) {
    GenerationParams params;
    bad.set(params);
    const Refusal refusal = RefusalOf(*test.llm, Ask(params));
    EXPECT_EQ(refusal.field, bad.field);
    EXPECT_EQ(refusal.message, bad.message);
  }
}

TEST(Llm, AllowedTokensMayAllEndTheReply) {
  TestLlm test({});
  GenerationParams params;
  params.allowed_token_ids = {kTestEos};
  EXPECT_EQ(RefusalOf(*test.llm, Ask(params)).field, "none");
  params.min_tokens = 1;
  EXPECT_EQ(RefusalOf(*test.llm, Ask(params)).field, "allowed_token_ids");
  params.allowed_token_ids = {kTestEos, 9};
  EXPECT_EQ(RefusalOf(*test.llm, Ask(params)).field, "none");
}

// The cap on choices is lower where each would keep a long prompt.
TEST(Llm, ChoicesTimesPromptIsBounded) {
  LlmParts parts = TestParts(std::make_unique<FakeEngine>());
  parts.max_model_len = 1 << 20;
  GenerationParams params;
  params.n = 16384;
  EXPECT_FALSE(ResolveParams(parts, 1024, &params));
  const auto refusal = ResolveParams(parts, 4096, &params);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->message, "n must be at most 4096 for a prompt of 4096 tokens, got 16384.");
}

TEST(Llm, RefusesPromptsWithTrueNumbers) {
  TestLlm test({});
  GenerateRequest request;
  request.prompt = std::vector<int32_t>(256, 9);
  EXPECT_EQ(RefusalOf(*test.llm, request).message,
            "This model's maximum context length is 256 tokens. However, your request has 256 input tokens. Please "
            "reduce the length of the input messages.");
  request.prompt = std::string(9'000'000, 'x');
  EXPECT_NE(RefusalOf(*test.llm, request).message.find("your request has 9000000 bytes."), std::string::npos);
  request.prompt = std::vector<int32_t>();
  EXPECT_EQ(RefusalOf(*test.llm, request).message, "The prompt cannot be empty.");
  request.prompt = std::string();
  EXPECT_EQ(RefusalOf(*test.llm, request).message, "The prompt cannot be empty.");
  request.prompt = std::vector<int32_t>{4, 512};
  EXPECT_EQ(RefusalOf(*test.llm, request).message, "Token id(s) 512 are out of vocabulary. Vocabulary size: 512");
}

TEST(Llm, LongTextsAreRefusedBeforeTheyAreTokenized) {
  LlmParts parts = TestParts(std::make_unique<FakeEngine>());
  const auto most = [&](int32_t max_model_len) {
    parts.max_model_len = max_model_len;
    const auto outcome = EncodePrompt(parts, std::string(20'000'000, 'x'), {});
    const Refusal* refusal = std::get_if<Refusal>(&outcome);
    return refusal == nullptr ? "accepted" : refusal->message;
  };
  const std::string shortest = std::to_string(100 * TestTokenizer()->max_token_bytes());
  EXPECT_NE(most(100).find("100 tokens, at most " + shortest + " bytes of text."), std::string::npos);
  EXPECT_NE(most(60'000).find("60000 tokens, at most 1048576 bytes of text."), std::string::npos);
  EXPECT_NE(most(1'000'000).find("1000000 tokens, at most 16000000 bytes of text."), std::string::npos);
}

TEST(Llm, EngineRefusalsReachTheCaller) {
  TestLlm test({.refuse = engine::SubmitRefusal{engine::SubmitRefusal::Kind::kInvalid,
                                                "the request needs 9 blocks, there are 4"}});
  auto outcome = test.llm->Complete(Ask());
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome));
  EXPECT_EQ(std::get<Refusal>(outcome).message, "the request needs 9 blocks, there are 4");
  EXPECT_EQ(test.llm->RunningGenerations(), 0);
}

}  // namespace
}  // namespace peng::api
