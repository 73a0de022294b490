// SPDX-License-Identifier: Apache-2.0
#include "server/generation_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "api/choice_stream.h"
#include "base/error.h"
#include "base/log.h"
#include "server/unknown_fields.h"

namespace peng::server {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// The name that the client gives the request, or the header that proxies set.
std::string MakeId(std::string_view prefix, const CommonRequest& request, RequestScope& scope) {
  if (!request.request_id.empty()) scope.set_id(request.request_id);
  return std::string(prefix) + scope.id();
}

// The request with what the server's settings add to it.
CommonRequest Adjusted(const Call& call, CommonRequest request) {
  const ServiceOptions& options = call.service.options();
  // A name and a salt cannot run into each other: neither holds a NUL.
  if (options.isolate_prefix_cache) {
    request.params.cache_salt = call.scope->client().name + '\0' + request.params.cache_salt;
  }
  if (options.force_include_usage && request.stream) request.include_usage = request.continuous_usage = true;
  return request;
}

}  // namespace

std::string SystemFingerprint(const Service& service) { return "peng-" + service.options().version; }

GenerationSession::GenerationSession(const Call& call, const api::Llm& llm, const CommonRequest& request,
                                     std::string_view id_prefix)
    : request_(Adjusted(call, request)),
      tokenizer_(llm.shared_tokenizer()),
      service_(call.service),
      reply_(call.reply),
      scope_(call.scope),
      id_(MakeId(id_prefix, request, *call.scope)),
      created_(static_cast<int64_t>(std::time(nullptr))) {}

void GenerationSession::Run(api::Llm& llm, std::vector<api::Prompt> prompts) {
  reply_->OnDisconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnDisconnect();
  });
  if (PrepareAll(llm, std::move(prompts))) StartAll(llm);
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
    if (gone_.stop_requested()) return false;
    const api::PreparedRequest* sibling = prepared_.empty() ? nullptr : &prepared_.front();
    auto outcome = llm.Prepare({std::move(prompt), request_.params, request_.add_special_tokens}, sibling);
    if (const auto* refusal = std::get_if<api::Refusal>(&outcome)) {
      reply_->Send(ToResponse(FromRefusal(*refusal)));
      return false;
    }
    prepared_.push_back(std::move(std::get<api::PreparedRequest>(outcome)));
    scope_->ChargeTokens(static_cast<int64_t>(prepared_.back().prompt_ids.size()));
  }
  LogPrompts();
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
  for (size_t prompt = 0; prompt < prepared_.size() && !gone_.stop_requested(); ++prompt) {
    const auto on_delta = [self = shared_from_this(), first = prompt * n](const api::Delta& d) {
      self->OnDelta(self->choices_[first + static_cast<size_t>(d.choice)], d);
    };
    auto outcome = llm.Start(prepared_[prompt], on_delta, gone_.get_token());
    if (const auto* refusal = std::get_if<api::Refusal>(&outcome)) {
      over_ = true;
      for (const auto& generation : generations_) generation->Cancel();
      return reply_->Send(ToResponse(FromRefusal(*refusal)));
    }
    generations_.push_back(std::move(std::get<0>(outcome)));
  }
  if (Phase starting = Phase::kStarting; !phase_.compare_exchange_strong(starting, Phase::kStarted)) return EndGone();
  if (!request_.stream) return;
  reply_->CarryStreams(choices_.size());
  reply_->Start(200, "text/event-stream; charset=utf-8", {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
  OpenStream();
}

void GenerationSession::OnDelta(ChoiceState& choice, const api::Delta& delta) {
  std::lock_guard lock(mutex_);
  if (over_) return;
  Observe(choice, delta);
  choice.generated_tokens += static_cast<int64_t>(delta.token_ids.size());
  choice.whole.cached_tokens = std::max(choice.whole.cached_tokens, delta.cached_tokens);
  choice.whole.preemptions = std::max(choice.whole.preemptions, delta.preemptions);
  scope_->ChargeTokens(static_cast<int64_t>(delta.token_ids.size()));
  LogReply(choice, delta);
  if (delta.finish == api::Finish::kError) return FailAll(delta);
  if (request_.stream) {
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
  TellEnd(api::FinishName(delta.finish), delta.times);
  if (request_.stream) {
    EndStream();
  } else {
    SendWhole();
  }
}

void GenerationSession::OnDisconnect() {
  gone_.request_stop();
  if (phase_.exchange(Phase::kGone) == Phase::kStarting) return;  // whoever starts the choices sees it
  std::lock_guard lock(mutex_);
  EndGone();
}

// Under the lock.
void GenerationSession::EndGone() {
  if (over_) return;
  over_ = true;
  for (const auto& generation : generations_) generation->Cancel();
  for (const ChoiceState& choice : choices_) {
    if (choice.whole.finish == api::Finish::kNone) ObserveEnd(choice, choice.whole, "abort");
  }
  TellEnd("abort", choices_.front().whole.times);
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
  finished.cached_tokens = choice.whole.cached_tokens;
  finished.preemptions = choice.whole.preemptions;
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
  if (!warned_ && HasWarnings()) {
    chunk.emplace_back("warnings", FieldWarnings(request_.unknown_fields, request_.idle_fields));
    warned_ = true;
  }
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
  if (HasWarnings()) reply.Set("warnings", FieldWarnings(request_.unknown_fields, request_.idle_fields));
  reply_->Send({.body = reply.Dump()});
}

// One choice that fails ends the reply: half an answer under status 200 would look like a whole one.
void GenerationSession::FailAll(const api::Delta& failed) {
  over_ = true;
  const std::string message = base::Printable(failed.error);
  if (!failed.error_of_request) {
    base::Log(base::LogLevel::kError, "the engine failed a request",
              {{"request_id", scope_->id()}, {"error", message}});
  }
  for (const auto& generation : generations_) generation->Cancel();
  for (const ChoiceState& choice : choices_) {
    if (choice.whole.finish == api::Finish::kNone) ObserveEnd(choice, choice.whole, "error");
  }
  TellEnd("error", choices_.front().whole.times);
  const ApiError error = failed.error_of_request ? BadRequest("The request cannot go on: " + message + ".")
                                                 : StatusError(500, "The request failed in the engine: " + message);
  if (!request_.stream) return reply_->Send(ToResponse(error));
  reply_->Write("data: " + ToJson(error).Dump() + "\n\n");
  reply_->Write("data: [DONE]\n\n");
  reply_->Finish();
}

RequestFigures GenerationSession::Figures() const {
  RequestFigures figures{.model = service_.model_name(), .stream = request_.stream};
  for (const api::PreparedRequest& prepared : prepared_) {
    figures.prompt_tokens += static_cast<int64_t>(prepared.prompt_ids.size());
  }
  for (const ChoiceState& choice : choices_) {
    figures.completion_tokens += choice.generated_tokens;
    // The prompt counts once: the first of its choices found it cached or not.
    const bool first = choice.index % std::max<int64_t>(1, request_.params.n) == 0;
    if (first) figures.cached_tokens += choice.whole.cached_tokens;
  }
  return figures;
}

void GenerationSession::TellEnd(std::string_view finish, const engine::RequestTimes& times) {
  std::vector<int64_t> longest(prepared_.size());
  for (const ChoiceState& choice : choices_) {
    longest[choice.prompt] = std::max(longest[choice.prompt], choice.generated_tokens);
  }
  for (const int64_t tokens : longest) service_.metrics().ObserveLongestReply(tokens);
  RequestFigures figures = Figures();
  figures.finish = finish;
  if (times.queued && times.scheduled) figures.queue_seconds = Seconds(*times.scheduled - *times.queued);
  if (times.queued && times.first_token) figures.first_token_seconds = Seconds(*times.first_token - *times.queued);
  scope_->SetFigures(std::move(figures));
}

void GenerationSession::LogPrompts() const {
  if (!service_.options().log_prompts) return;
  for (const api::PreparedRequest& prepared : prepared_) {
    base::Log(base::LogLevel::kInfo, "prompt",
              {{"request_id", scope_->id()}, {"text", tokenizer_->Decode(prepared.prompt_ids, false)}});
  }
}

void GenerationSession::LogReply(ChoiceState& choice, const api::Delta& delta) const {
  if (!service_.options().log_prompts) return;
  choice.logged_text += delta.text;
  if (delta.finish == api::Finish::kNone) return;
  base::Log(base::LogLevel::kInfo, "reply",
            {{"request_id", scope_->id()}, {"index", choice.index}, {"text", choice.logged_text}});
}

Json GenerationSession::Usage() const {
  const RequestFigures figures = Figures();
  Json details;
  if (service_.options().prompt_tokens_details) details.Set("cached_tokens", figures.cached_tokens);
  return Json::Object{{"prompt_tokens", figures.prompt_tokens},
                      {"total_tokens", figures.prompt_tokens + figures.completion_tokens},
                      {"completion_tokens", figures.completion_tokens},
                      {"prompt_tokens_details", std::move(details)}};
}

}  // namespace peng::server
