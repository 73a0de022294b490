// SPDX-License-Identifier: Apache-2.0
#include "api/choice_stream.h"

#include <algorithm>
#include <iterator>

namespace peng::api {
namespace {

Finish FromEngine(sched::FinishReason reason) {
  switch (reason) {
    case sched::FinishReason::kStop:
      return Finish::kStop;
    case sched::FinishReason::kLength:
      return Finish::kLength;
    case sched::FinishReason::kAbort:
      return Finish::kAbort;
    case sched::FinishReason::kError:
      return Finish::kError;
    case sched::FinishReason::kNone:
      break;
  }
  return Finish::kNone;
}

}  // namespace

const char* FinishName(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kAbort:
      return "abort";
    case Finish::kError:
      return "error";
    case Finish::kNone:
      break;
  }
  return "";
}

ChoiceStream::ChoiceStream(std::shared_ptr<const text::Tokenizer> tokenizer, const PreparedRequest& request,
                           std::shared_ptr<const text::StopStrings> stops, int32_t choice,
                           std::shared_ptr<const DeltaCallback> on_delta)
    : tokenizer_(tokenizer),
      on_delta_(std::move(on_delta)),
      choice_(choice),
      min_tokens_(request.params.min_tokens),
      include_stop_(request.params.include_stop_str_in_output),
      wants_prompt_logprobs_(choice == 0 && request.params.prompt_logprobs.has_value()),
      detokenizer_(tokenizer, request.params.skip_special_tokens),
      stops_(std::move(stops), request.params.include_stop_str_in_output) {
  if (!request.params.skip_special_tokens) return;  // then the text shows them
  for (size_t i = 0; i < request.params.stop.size(); ++i) {
    const auto id = tokenizer_->TokenId(request.params.stop[i]);
    if (id && tokenizer_->IsSpecial(*id)) stop_tokens_.emplace(*id, i);
  }
}

bool ChoiceStream::Push(const engine::EngineEvent& event) {
  const sched::RequestEvent& e = event.event;
  Delta delta;
  delta.choice = choice_;
  delta.times = event.times;
  delta.cached_tokens = e.num_cached_tokens;
  delta.preemptions = e.num_preemptions;
  AddPromptLogprobs(e, &delta);
  const bool stop_token_last = e.finish == sched::FinishReason::kStop && !e.ids.empty();
  for (size_t i = 0; i < e.ids.size() && delta.finish == Finish::kNone; ++i) {
    delta.token_ids.push_back(e.ids[i]);
    if (i < e.logprobs.size()) delta.logprobs.push_back(Convert(e.logprobs[i]));
    ++num_tokens_;
    // The token that ends a reply is no part of its text.
    if (stop_token_last && i + 1 == e.ids.size() && !(include_stop_ && e.stop_token)) break;
    AddToken(e.ids[i], &delta);
  }
  if (delta.finish == Finish::kNone && e.finish != sched::FinishReason::kNone) End(event, &delta);
  (*on_delta_)(delta);
  return delta.finish != Finish::kNone;
}

bool ChoiceStream::AddToken(int32_t id, Delta* delta) {
  if (const auto it = stop_tokens_.find(id); it != stop_tokens_.end() && num_tokens_ > min_tokens_) {
    delta->text += stops_.Push(detokenizer_.Flush()).text;
    delta->text += stops_.FinishWith(it->second).text;
    delta->finish = Finish::kStop;
    delta->stop_reason = stops_.stops()[it->second];
    return true;
  }
  AddText(detokenizer_.Push(id), delta);
  return delta->finish != Finish::kNone;
}

void ChoiceStream::AddText(std::string_view piece, Delta* delta) {
  if (num_tokens_ <= min_tokens_) {  // too early for a stop string
    delta->text += piece;
    return;
  }
  text::StopChecker::Output out = stops_.Push(piece);
  delta->text += out.text;
  if (!out.stop) return;
  delta->finish = Finish::kStop;
  delta->stop_reason = stops_.stops()[*out.stop];
}

void ChoiceStream::End(const engine::EngineEvent& event, Delta* delta) {
  AddText(detokenizer_.Flush(), delta);
  if (delta->finish != Finish::kNone) return;
  delta->text += stops_.Finish();
  delta->finish = FromEngine(event.event.finish);
  delta->error = event.event.error;
  delta->error_of_request = event.event.error_of_request;
  if (event.event.stop_token) delta->stop_reason = *event.event.stop_token;
}

// The prompt's figures may come in several pieces; they are handed on whole, with the first token.
void ChoiceStream::AddPromptLogprobs(const sched::RequestEvent& event, Delta* delta) {
  if (!wants_prompt_logprobs_) return;
  if (prompt_logprobs_.empty()) prompt_logprobs_.emplace_back();  // nothing comes before the first token
  for (const sched::PositionLogprobs& position : event.prompt_logprobs)
    prompt_logprobs_.emplace_back(Convert(position));
  if (event.ids.empty() && event.finish == sched::FinishReason::kNone) return;
  wants_prompt_logprobs_ = false;
  delta->prompt_logprobs = std::move(prompt_logprobs_);
}

PositionLogprobs ChoiceStream::Convert(const sched::PositionLogprobs& from) const {
  const auto convert = [this](const sched::TokenLogprob& t) {
    return TokenLogprob{t.id, t.logprob, t.rank, std::string(tokenizer_->TokenBytes(t.id))};
  };
  PositionLogprobs to;
  to.sampled = convert(from.sampled);
  std::transform(from.top.begin(), from.top.end(), std::back_inserter(to.top), convert);
  return to;
}

void AppendDelta(const Delta& delta, Delta* whole) {
  whole->choice = delta.choice;
  whole->text += delta.text;
  whole->token_ids.insert(whole->token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  whole->logprobs.insert(whole->logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  if (!delta.prompt_logprobs.empty()) whole->prompt_logprobs = delta.prompt_logprobs;
  whole->finish = delta.finish;
  whole->stop_reason = delta.stop_reason;
  whole->error = delta.error;
  whole->error_of_request = delta.error_of_request;
  whole->cached_tokens = std::max(whole->cached_tokens, delta.cached_tokens);
  whole->preemptions = std::max(whole->preemptions, delta.preemptions);
  whole->times = delta.times;
}

}  // namespace peng::api
