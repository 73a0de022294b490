// SPDX-License-Identifier: Apache-2.0
#include "server/generation_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "api/choice_stream.h"
#include "base/error.h"
#include "base/log.h"

namespace peng::server {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

std::string RandomId() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}{:016x}", random(), random());
}

// The name that the client, or the header that proxies set, gives the request.
std::string MakeId(std::string_view prefix, const CommonRequest& request, const HttpRequest& http) {
  if (!request.request_id.empty()) return std::string(prefix) + request.request_id;
  const std::string header = base::Printable(http.Header("X-Request-Id"), 128);
  return std::string(prefix) + (header.empty() ? RandomId() : header);
}

}  // namespace

std::string SystemFingerprint(const Service& service) { return "peng-" + service.options().version; }

GenerationSession::GenerationSession(const Call& call, const api::Llm& llm, const CommonRequest& request,
                                     std::string_view id_prefix)
    : request_(request),
      tokenizer_(llm.shared_tokenizer()),
      service_(call.service),
      reply_(call.reply),
      id_(MakeId(id_prefix, request, call.request)),
      created_(static_cast<int64_t>(std::time(nullptr))) {}

void GenerationSession::Run(api::Llm& llm, std::vector<api::Prompt> prompts) {
  if (!PrepareAll(llm, std::move(prompts))) return;
  StartAll(llm);
  reply_->OnDisconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnDisconnect();
  });
}

bool GenerationSession::PrepareAll(const api::Llm& llm, std::vector<api::Prompt> prompts) {
  constexpr int64_t kMaxChoicesInAll = 16384;
  const auto num_prompts = static_cast<int64_t>(prompts.size());
  if (num_prompts > 1 && num_prompts * std::max<int64_t>(1, request_.params.n) > kMaxChoicesInAll) {
    reply_->Send(ToResponse(
        BadRequest(fmt::format("n times the number of prompts must be at most {}.", kMaxChoicesInAll), "n")));
    return false;
  }
  for (api::Prompt& prompt : prompts) {
    auto outcome = llm.Prepare({std::move(prompt), request_.params, request_.add_special_tokens});
    if (const auto* refusal = std::get_if<api::Refusal>(&outcome)) {
      reply_->Send(ToResponse(FromRefusal(*refusal)));
      return false;
    }
    prepared_.push_back(std::move(std::get<api::PreparedRequest>(outcome)));
  }
  return true;
}

// Under the lock from the first Start to the opening chunks: deltas that come meanwhile wait their turn.
void GenerationSession::StartAll(api::Llm& llm) {
  std::lock_guard lock(mutex_);
  const size_t n = static_cast<size_t>(request_.params.n);
  choices_.resize(prepared_.size() * n);
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = static_cast<int32_t>(i);
    choices_[i].prompt = i / n;
  }
  open_choices_ = choices_.size();
  for (size_t prompt = 0; prompt < prepared_.size(); ++prompt) {
    auto outcome = llm.Start(prepared_[prompt], [self = shared_from_this(), first = prompt * n](const api::Delta& d) {
      self->OnDelta(self->choices_[first + static_cast<size_t>(d.choice)], d);
    });
    if (const auto* refusal = std::get_if<api::Refusal>(&outcome)) {
      over_ = true;
      for (const auto& generation : generations_) generation->Cancel();
      return reply_->Send(ToResponse(FromRefusal(*refusal)));
    }
    generations_.push_back(std::move(std::get<0>(outcome)));
  }
  if (!request_.stream) return;
  reply_->Start(200, "text/event-stream; charset=utf-8", {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
  OpenStream();
}

void GenerationSession::OnDelta(ChoiceState& choice, const api::Delta& delta) {
  std::lock_guard lock(mutex_);
  if (over_) return;
  Observe(choice, delta);
  choice.generated_tokens += static_cast<int64_t>(delta.token_ids.size());
  if (delta.finish == api::Finish::kError) return FailAll(delta.error);
  if (request_.stream) {
    choice.whole.cached_tokens = std::max(choice.whole.cached_tokens, delta.cached_tokens);
    Json body = ChunkChoice(choice, delta);
    Json::Object more;
    if (delta.finish != api::Finish::kNone && !request_.include_usage) {
      more.emplace_back("system_fingerprint", SystemFingerprint(service_));
    }
    if (!body.is_null()) SendChunk({std::move(body)}, std::move(more));
  } else {
    api::AppendDelta(delta, &choice.whole);
  }
  if (delta.finish == api::Finish::kNone) return;
  ObserveEnd(choice, delta, api::FinishName(delta.finish));
  choice.whole.finish = delta.finish;
  if (--open_choices_ > 0) return;
  over_ = true;
  if (request_.stream) {
    EndStream();
  } else {
    SendWhole();
  }
}

void GenerationSession::OnDisconnect() {
  std::lock_guard lock(mutex_);
  if (over_) return;
  over_ = true;
  for (const auto& generation : generations_) generation->Cancel();
  for (const ChoiceState& choice : choices_) {
    if (choice.whole.finish == api::Finish::kNone) ObserveEnd(choice, choice.whole, "abort");
  }
}

void GenerationSession::Observe(ChoiceState& choice, const api::Delta& delta) {
  choice.whole.times = delta.times;
  if (delta.token_ids.empty()) return;
  const Clock::time_point now = Clock::now();
  if (choice.last_token) {
    service_.metrics().ObserveInterToken(Seconds(now - *choice.last_token));
  } else {
    service_.metrics().ObserveFirstToken(Seconds(now - arrival_));
  }
  choice.last_token = now;
}

void GenerationSession::ObserveEnd(const ChoiceState& choice, const api::Delta& delta, std::string_view reason) {
  const api::PreparedRequest& prepared = prepared_[choice.prompt];
  FinishedChoice finished;
  finished.reason = reason;
  finished.prompt_tokens = static_cast<int64_t>(prepared.prompt_ids.size());
  finished.generated_tokens = choice.generated_tokens;
  finished.max_tokens = *prepared.params.max_tokens;
  finished.n = prepared.params.n;
  finished.e2e = Seconds(Clock::now() - arrival_);
  const auto between = [](const auto& from, const auto& to) -> std::optional<double> {
    if (!from || !to) return std::nullopt;
    return Seconds(*to - *from);
  };
  const engine::RequestTimes& t = delta.times;
  finished.queue = between(t.queued, t.scheduled);
  finished.prefill = between(t.scheduled, t.first_token);
  finished.decode = between(t.first_token, t.last_token);
  finished.inference = between(t.scheduled, t.last_token);
  service_.metrics().ObserveFinished(finished);
}

void GenerationSession::SendChunk(Json::Array choices, Json::Object more) {
  Json::Object chunk{
      {"id", id_}, {"object", ChunkObjectName()}, {"created", created_}, {"model", service_.model_name()}};
  if (request_.continuous_usage && !choices.empty()) chunk.emplace_back("usage", Usage());
  chunk.emplace_back("choices", std::move(choices));
  for (Json::Member& member : more) chunk.push_back(std::move(member));
  reply_->Write("data: " + Json(std::move(chunk)).Dump() + "\n\n");
}

void GenerationSession::EndStream() {
  if (request_.include_usage) {
    SendChunk({}, {{"usage", Usage()}, {"system_fingerprint", SystemFingerprint(service_)}});
  }
  reply_->Write("data: [DONE]\n\n");
  reply_->Finish();
}

void GenerationSession::SendWhole() {
  Json::Array choices;
  for (ChoiceState& choice : choices_) choices.push_back(WholeChoice(choice));
  Json reply(Json::Object{{"id", id_},
                          {"object", ObjectName()},
                          {"created", created_},
                          {"model", service_.model_name()},
                          {"choices", Json(std::move(choices))},
                          {"service_tier", nullptr},
                          {"system_fingerprint", SystemFingerprint(service_)},
                          {"usage", Usage()}});
  Finish(&reply);
  reply_->Send({.body = reply.Dump()});
}

// One choice that fails ends the reply: half an answer under status 200 would look like a whole one.
void GenerationSession::FailAll(const std::string& message) {
  over_ = true;
  base::LogError("request {} failed: {}", base::Printable(id_), base::Printable(message));
  for (const auto& generation : generations_) generation->Cancel();
  for (const ChoiceState& choice : choices_) {
    if (choice.whole.finish == api::Finish::kNone) ObserveEnd(choice, choice.whole, "error");
  }
  const ApiError error = StatusError(500, "The request failed in the engine: " + base::Printable(message));
  if (!request_.stream) return reply_->Send(ToResponse(error));
  reply_->Write("data: " + ToJson(error).Dump() + "\n\n");
  reply_->Write("data: [DONE]\n\n");
  reply_->Finish();
}

Json GenerationSession::Usage() const {
  int64_t prompt = 0, generated = 0;
  for (const api::PreparedRequest& prepared : prepared_) prompt += static_cast<int64_t>(prepared.prompt_ids.size());
  for (const ChoiceState& choice : choices_) generated += choice.generated_tokens;
  return Json::Object{{"prompt_tokens", prompt},
                      {"total_tokens", prompt + generated},
                      {"completion_tokens", generated},
                      {"prompt_tokens_details", nullptr}};
}

}  // namespace peng::server
