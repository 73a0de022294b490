// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <mutex>
#include <utility>

#include "api/build.h"
#include "api/version.h"
#include "base/error.h"
#include "peng/peng.h"

namespace peng {
namespace {

template <typename F>
auto Translate(F&& work) {
  try {
    return work();
  } catch (const base::Error& e) {
    throw PengError(e.exit_code(), e.what());
  }
}

[[noreturn]] void Throw(const api::Refusal& refusal) {
  const bool caller = refusal.kind == api::Refusal::Kind::kInvalid;
  const auto kind = caller ? base::ErrorKind::kUsage : base::ErrorKind::kRuntime;
  throw PengError(static_cast<int>(kind), refusal.message);
}

api::GenerationParams Convert(const GenerateOptions& options) {
  api::GenerationParams params;
  if (options.max_tokens != 0) params.max_tokens = options.max_tokens;
  params.temperature = options.temperature;
  params.top_p = options.top_p;
  if (options.top_k) params.top_k = *options.top_k;
  params.min_p = options.min_p;
  params.seed = options.seed;
  params.stop = options.stop;
  return params;
}

base::ServeOptions Convert(const LoadOptions& options) {
  base::ServeOptions serve;
  serve.model = options.model;
  serve.dtype = options.dtype;
  serve.cpu_threads = options.threads;
  serve.max_model_len = options.max_model_len;
  serve.kv_cache_memory_bytes = options.kv_cache_bytes;
  return serve;
}

// One reply, passed on from the dispatcher thread to the caller's callback.
class Receiver {
 public:
  explicit Receiver(const OnText& on_text) : on_text_(on_text) {}

  void Take(const api::Delta& delta) {
    std::lock_guard lock(mutex_);
    if (done_) return;
    reply_.text += delta.text;
    reply_.completion_tokens += static_cast<int32_t>(delta.token_ids.size());
    error_ = delta.error;
    if (!delta.text.empty() && on_text_ && !on_text_(delta.text)) {
      reply_.finish_reason = "abort";
      done_ = true;
    } else if (delta.finish != api::Finish::kNone) {
      reply_.finish_reason = api::FinishName(delta.finish);
      done_ = true;
    }
    changed_.notify_all();
  }

  Reply Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (!error_.empty()) throw PengError(static_cast<int>(base::ErrorKind::kRuntime), error_);
    return reply_;
  }

 private:
  const OnText& on_text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Reply reply_;
  std::string error_;
  bool done_ = false;
};

}  // namespace

struct Model::Impl {
  std::unique_ptr<api::Llm> llm;

  Reply Run(api::Prompt prompt, const GenerateOptions& options, const OnText& on_text) const {
    auto prepared = llm->Prepare({std::move(prompt), Convert(options), {}});
    if (const auto* refusal = std::get_if<api::Refusal>(&prepared)) Throw(*refusal);
    const auto& ready = std::get<api::PreparedRequest>(prepared);
    const auto receiver = std::make_shared<Receiver>(on_text);
    auto started = llm->Start(ready, [receiver](const api::Delta& delta) { receiver->Take(delta); });
    if (const auto* refusal = std::get_if<api::Refusal>(&started)) Throw(*refusal);
    Reply reply = receiver->Wait();  // after it the callback is not used again, and dropping `started` ends the work
    reply.prompt_tokens = static_cast<int32_t>(ready.prompt_ids.size());
    return reply;
  }
};

std::string_view Version() {
  static const std::string version = api::Version();
  return version;
}

Model::Model(const LoadOptions& options)
    : impl_(Translate([&] { return std::make_unique<Impl>(Impl{api::BuildLlm(Convert(options))}); })) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

Reply Model::Complete(const std::string& prompt, const GenerateOptions& options, const OnText& on_text) {
  return Translate([&] { return impl_->Run(prompt, options, on_text); });
}

Reply Model::Chat(const std::vector<Message>& messages, const GenerateOptions& options, const OnText& on_text) {
  api::ChatPrompt chat;
  chat.messages = base::Json::Array();
  for (const Message& message : messages) {
    chat.messages.Push(base::Json::Object{{"role", message.role}, {"content", message.content}});
  }
  return Translate([&] { return impl_->Run(std::move(chat), options, on_text); });
}

std::vector<int32_t> Model::Tokenize(const std::string& text) const {
  return impl_->llm->tokenizer().Encode(text, true);
}

std::string Model::Detokenize(const std::vector<int32_t>& ids) const {
  return impl_->llm->tokenizer().Decode(ids, false);
}

int32_t Model::max_model_len() const { return impl_->llm->max_model_len(); }

}  // namespace peng
