// SPDX-License-Identifier: Apache-2.0
#include "api/llm.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>

#include "api/choice_stream.h"
#include "api/prepare.h"
#include "base/log.h"

namespace peng::api {

using sched::RequestId;

// The engine, and the streams of the requests that run in it.
class Core {
 public:
  explicit Core(LlmParts p)
      : parts(std::move(p)),
        random_(parts.seed ? *parts.seed : std::random_device{}()),
        dispatcher_([this](std::stop_token stop) { Dispatch(stop); }) {}

  // Ends every request and the dispatcher. Not from a callback; what still holds the Core afterwards may drop it
  // anywhere.
  void Stop() {
    if (!dispatcher_.joinable()) return;
    std::vector<RequestId> ids;
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      for (const auto& [id, stream] : streams_) ids.push_back(id);
    }
    Abort(ids);
    dispatcher_.request_stop();
    dispatcher_.join();
  }

  // Registers before it submits: the first event may come at once.
  std::optional<engine::SubmitRefusal> Submit(sched::RequestSpec spec, std::shared_ptr<ChoiceStream> stream) {
    const RequestId id = spec.id;
    {
      std::lock_guard lock(mutex_);
      if (stopped_) return engine::SubmitRefusal{engine::SubmitRefusal::Kind::kDown, "The server is shutting down."};
      streams_.emplace(id, std::move(stream));
    }
    std::optional<engine::SubmitRefusal> refused = parts.engine->Submit(std::move(spec));
    if (refused) Forget(id);
    return refused;
  }

  void Abort(const std::vector<RequestId>& ids) {
    for (const RequestId id : ids) {
      if (Forget(id)) parts.engine->Abort(id);
    }
  }

  RequestId NextId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  uint64_t RandomSeed() {
    std::lock_guard lock(mutex_);
    return random_();
  }

  int running() const {
    std::lock_guard lock(mutex_);
    return static_cast<int>(streams_.size());
  }

  LlmParts parts;

 private:
  void Dispatch(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const engine::EngineEvent& event : parts.engine->Poll(std::chrono::milliseconds(50))) Deliver(event);
      if (parts.engine->Health() == engine::EngineHealth::kDead) FailAll();
    }
  }

  void Deliver(const engine::EngineEvent& event) {
    const RequestId id = event.event.request;
    const std::shared_ptr<ChoiceStream> stream = Find(id);
    if (stream == nullptr) return;  // cancelled meanwhile
    const bool engine_ended = event.event.finish != sched::FinishReason::kNone;
    bool ended = true;
    try {
      ended = stream->Push(event);
    } catch (const std::exception& e) {
      base::LogError("request {}: {}", id, e.what());
    }
    if (ended && Forget(id) && !engine_ended) parts.engine->Abort(id);
  }

  // A dead engine sends no more events.
  void FailAll() {
    std::unordered_map<RequestId, std::shared_ptr<ChoiceStream>> streams;
    {
      std::lock_guard lock(mutex_);
      streams.swap(streams_);
    }
    for (const auto& [id, stream] : streams) {
      engine::EngineEvent event;
      event.event.request = id;
      event.event.finish = sched::FinishReason::kError;
      event.event.error = "The engine has stopped.";
      stream->Push(event);
    }
  }

  std::shared_ptr<ChoiceStream> Find(RequestId id) const {
    std::lock_guard lock(mutex_);
    const auto it = streams_.find(id);
    return it == streams_.end() ? nullptr : it->second;
  }

  bool Forget(RequestId id) {
    std::shared_ptr<ChoiceStream> dropped;  // destroyed outside the lock
    std::lock_guard lock(mutex_);
    const auto it = streams_.find(id);
    if (it == streams_.end()) return false;
    dropped = std::move(it->second);
    streams_.erase(it);
    return true;
  }

  mutable std::mutex mutex_;
  std::unordered_map<RequestId, std::shared_ptr<ChoiceStream>> streams_;
  std::mt19937_64 random_;
  bool stopped_ = false;
  std::atomic<RequestId> next_id_{1};
  std::jthread dispatcher_;
};

namespace {

class RunningGeneration final : public Generation {
 public:
  explicit RunningGeneration(std::weak_ptr<Core> core) : core_(std::move(core)) {}
  ~RunningGeneration() override { Cancel(); }

  void Cancel() override {
    if (const auto core = core_.lock()) core->Abort(ids_);
  }
  void Add(RequestId id) { ids_.push_back(id); }

 private:
  std::weak_ptr<Core> core_;
  std::vector<RequestId> ids_;
};

void ShareLists(const PreparedRequest& from, PreparedRequest* to) {
  to->params.logit_bias = from.params.logit_bias;
  to->params.allowed_token_ids = from.params.allowed_token_ids;
  to->params.stop_token_ids = from.params.stop_token_ids;
  to->bad_words = from.bad_words;
}

sched::RequestSpec MakeSpec(const LlmParts& parts, const PreparedRequest& request, RequestId id, int32_t choice,
                            uint64_t seed) {
  const GenerationParams& p = request.params;
  sched::RequestSpec spec;
  spec.id = id;
  spec.prompt = request.prompt_ids;
  spec.sampling.temperature = *p.temperature;
  spec.sampling.top_p = *p.top_p;
  spec.sampling.top_k = static_cast<int32_t>(*p.top_k);
  spec.sampling.min_p = *p.min_p;
  spec.sampling.seed = seed;
  spec.sampling.choice = choice;
  spec.sampling.presence_penalty = p.presence_penalty;
  spec.sampling.frequency_penalty = p.frequency_penalty;
  spec.sampling.repetition_penalty = *p.repetition_penalty;
  spec.sampling.logit_bias = p.logit_bias;
  spec.sampling.allowed_token_ids = p.allowed_token_ids.value_or(base::SharedList<int32_t>());
  spec.sampling.bad_words = request.bad_words;
  const auto count = [&](std::optional<int64_t> k) {
    return k ? static_cast<int32_t>(*k == -1 ? parts.vocab_size : *k) : -1;
  };
  spec.sampling.num_logprobs = count(p.logprobs);
  // The choices share the prompt: its figures are computed once.
  spec.sampling.num_prompt_logprobs = choice == 0 ? count(p.prompt_logprobs) : -1;
  spec.max_tokens = static_cast<int32_t>(*p.max_tokens);
  spec.min_tokens = static_cast<int32_t>(p.min_tokens);
  spec.ignore_eos = p.ignore_eos;
  spec.eos_token_ids = parts.eos_token_ids;
  spec.stop_token_ids = p.stop_token_ids;
  spec.priority = p.priority;
  spec.cache_salt = p.cache_salt;
  return spec;
}

}  // namespace

Llm::Llm(LlmParts parts) : core_(std::make_shared<Core>(std::move(parts))) {}
Llm::~Llm() { Shutdown(); }
void Llm::Shutdown() { core_->Stop(); }

std::variant<PreparedRequest, Refusal> Llm::Prepare(GenerateRequest request, const PreparedRequest* sibling) const {
  auto ids = EncodePrompt(core_->parts, request.prompt, request.add_special_tokens);
  if (auto* refusal = std::get_if<Refusal>(&ids)) return std::move(*refusal);
  PreparedRequest prepared;
  prepared.prompt_ids = std::move(std::get<std::vector<int32_t>>(ids));
  prepared.params = std::move(request.params);
  if (sibling != nullptr) ShareLists(*sibling, &prepared);
  if (auto refusal = ResolveParams(core_->parts, prepared.prompt_ids.size(), &prepared.params)) {
    if (refusal->field == "prompt" && std::holds_alternative<ChatPrompt>(request.prompt)) refusal->field = "messages";
    return std::move(*refusal);
  }
  if (sibling == nullptr) {
    auto bad_words = EncodeBadWords(*core_->parts.tokenizer, prepared.params.bad_words);
    if (auto* refusal = std::get_if<Refusal>(&bad_words)) return std::move(*refusal);
    prepared.bad_words = std::move(std::get<0>(bad_words));
  }
  if (auto refusal = CheckAllowedTokens(core_->parts, prepared.params, prepared.bad_words)) return std::move(*refusal);
  return prepared;
}

std::variant<std::shared_ptr<Generation>, Refusal> Llm::Start(const PreparedRequest& request, DeltaCallback on_delta,
                                                              const std::stop_token& stop) {
  auto generation = std::make_shared<RunningGeneration>(core_);
  const auto callback = std::make_shared<const DeltaCallback>(std::move(on_delta));
  const auto given_seed = request.params.seed;
  const uint64_t seed = given_seed && *given_seed != -1 ? static_cast<uint64_t>(*given_seed) : core_->RandomSeed();
  const auto stops = std::make_shared<const text::StopStrings>(request.params.stop);
  for (int32_t choice = 0; choice < request.params.n && !stop.stop_requested(); ++choice) {
    const RequestId id = core_->NextId();
    auto stream = std::make_shared<ChoiceStream>(core_->parts.tokenizer, request, stops, choice, callback);
    generation->Add(id);
    if (auto refused = core_->Submit(MakeSpec(core_->parts, request, id, choice, seed), std::move(stream))) {
      const bool invalid = refused->kind == engine::SubmitRefusal::Kind::kInvalid;
      return Refusal{invalid ? Refusal::Kind::kInvalid : Refusal::Kind::kUnavailable,
                     std::move(refused->message),
                     {},
                     refused->retry_after_seconds};
    }
  }
  return generation;
}

std::variant<std::vector<Delta>, Refusal> Llm::Complete(GenerateRequest request) {
  auto prepared = Prepare(std::move(request));
  if (auto* refusal = std::get_if<Refusal>(&prepared)) return std::move(*refusal);
  const PreparedRequest& ready = std::get<PreparedRequest>(prepared);
  std::vector<Delta> whole(static_cast<size_t>(ready.params.n));
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = whole.size();
  auto started = Start(ready, [&](const Delta& delta) {
    std::lock_guard lock(mutex);
    AppendDelta(delta, &whole[static_cast<size_t>(delta.choice)]);
    if (delta.finish != Finish::kNone) --open;
    changed.notify_all();
  });
  if (auto* refusal = std::get_if<Refusal>(&started)) return std::move(*refusal);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return open == 0; });
  return whole;
}

std::variant<std::vector<int32_t>, Refusal> Llm::Tokenize(const Prompt& prompt,
                                                          std::optional<bool> add_special_tokens) const {
  return EncodePrompt(core_->parts, prompt, add_special_tokens);
}

engine::EngineHealth Llm::Health() const { return core_->parts.engine->Health(); }
engine::EngineStats Llm::Stats() const { return core_->parts.engine->Stats(); }
void Llm::ResetPrefixCache() { core_->parts.engine->ResetPrefixCache(); }
int Llm::RunningGenerations() const { return core_->running(); }
const text::Tokenizer& Llm::tokenizer() const { return *core_->parts.tokenizer; }
std::shared_ptr<const text::Tokenizer> Llm::shared_tokenizer() const { return core_->parts.tokenizer; }
bool Llm::has_chat_template() const { return core_->parts.chat_template != nullptr; }
int32_t Llm::max_model_len() const { return core_->parts.max_model_len; }
int32_t Llm::vocab_size() const { return core_->parts.vocab_size; }
int32_t Llm::max_logprobs() const { return core_->parts.max_logprobs; }
const std::string& Llm::model_path() const { return core_->parts.model_path; }
const std::string& Llm::architecture() const { return core_->parts.architecture; }

}  // namespace peng::api
