// SPDX-License-Identifier: Apache-2.0
#include "api/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "api/loaded_model.h"
#include "api/model_path.h"
#include "api/prepare.h"
#include "api/tokenizer_spec.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "engine/model_executor.h"

namespace peng::api {
namespace {

using base::Error;
using base::ErrorKind;

// What the engine needs alive. Members are destroyed from the last to the first.
struct Running {
  LoadedModel loaded;
  std::unique_ptr<backend::KvStore> kv;
};

constexpr size_t kMaxTemplateBytes = 4 << 20;

int64_t ModelLength(const LoadedModel& loaded, const base::ServeOptions& options) {
  const int64_t longest = loaded.model->info().max_positions;
  if (options.max_model_len > longest) {
    throw Error(ErrorKind::kUsage, fmt::format("--max-model-len {}", options.max_model_len),
                fmt::format("is longer than the {} positions that the model was made for", longest),
                fmt::format("use {} or less", longest));
  }
  return options.max_model_len > 0 ? options.max_model_len : longest;
}

// What bounds a step, and with it the scratch memory.
sched::SchedulerConfig StepLimits(const base::ServeOptions& options) {
  sched::SchedulerConfig limits;
  limits.max_num_seqs = static_cast<int>(options.max_num_seqs);
  limits.max_num_batched_tokens = static_cast<int>(options.max_num_batched_tokens);
  limits.policy = options.scheduling_policy == "priority" ? sched::Policy::kPriority : sched::Policy::kFcfs;
  limits.long_prefill_token_threshold = static_cast<int>(options.long_prefill_token_threshold);
  limits.max_num_partial_prefills = static_cast<int>(options.max_num_partial_prefills);
  limits.max_long_partial_prefills = static_cast<int>(options.max_long_partial_prefills);
  if (options.max_long_partial_prefills > options.max_num_partial_prefills) {
    throw Error(ErrorKind::kUsage, fmt::format("--max-long-partial-prefills {}", options.max_long_partial_prefills),
                fmt::format("is more than --max-num-partial-prefills {}", options.max_num_partial_prefills),
                fmt::format("use {} or less, or raise the other", options.max_num_partial_prefills));
  }
  return limits;
}

engine::MemoryPlan Plan(const LoadedModel& loaded, const base::ServeOptions& options) {
  // Vocabularies of 150k tokens, code, threads and connections stay below this.
  constexpr int64_t kOtherBytes = int64_t{80} << 20;
  backend::Backend& backend = *loaded.backend;
  const std::vector<backend::KvSpec> specs = loaded.model->Kv(backend.DefaultKvDType());
  engine::MemoryDemand demand;
  demand.available = backend.FreeMemoryBytes();
  demand.free = static_cast<int64_t>(static_cast<double>(demand.available) * options.gpu_memory_utilization);
  demand.weights = loaded.loader->planned_bytes();
  demand.mapped = loaded.loader->mapped_bytes();
  demand.other = kOtherBytes;
  demand.scratch = [&](int max_num_batched_tokens, int max_num_seqs) {
    sched::SchedulerConfig limits = StepLimits(options);
    limits.max_num_batched_tokens = max_num_batched_tokens;
    limits.max_num_seqs = max_num_seqs;
    return engine::ScratchBytes(*loaded.model, backend, max_num_batched_tokens, sched::MaxLogitRows(limits),
                                demand.block_size);
  };
  demand.max_num_batched_tokens = static_cast<int>(options.max_num_batched_tokens);
  demand.block_size = backend.DefaultBlockSize();
  demand.kv_block = backend.KvBlockBytes(specs, demand.block_size);
  demand.max_num_seqs = static_cast<int>(options.max_num_seqs);
  demand.max_model_len = ModelLength(loaded, options);
  demand.max_model_len_is_fixed = options.max_model_len > 0;
  if (options.kv_cache_memory_bytes > 0) demand.kv_cache = options.kv_cache_memory_bytes;
  engine::MemoryPlan plan = engine::PlanMemory(demand);
  for (const std::string& line : plan.lines) base::LogInfo("{}", line);
  return plan;
}

// The compute threads rest while rows are sampled, so as many can sample; more than a few only wake up for nothing.
engine::SamplingThreads ChooseSamplingThreads(const LoadedModel& loaded, const base::ServeOptions& options) {
  constexpr int64_t kEnough = 16;
  engine::SamplingThreads threads;
  threads.count = static_cast<int>(std::min<int64_t>({loaded.num_threads, options.max_num_seqs, kEnough}));
  return threads;
}

engine::EngineConfig MakeEngineConfig(const base::ServeOptions& options, const engine::MemoryPlan& plan, int block_size,
                                      int64_t vocab_size) {
  engine::EngineConfig config;
  config.scheduler = StepLimits(options);
  config.scheduler.block_size = block_size;
  config.scheduler.max_model_len = static_cast<int>(plan.max_model_len);
  config.scheduler.strict_prefix_reuse = options.batch_invariant == "strict";
  std::random_device random;  // digests of blocks must not be guessable from outside
  for (int i = 0; i < 32; ++i) config.scheduler.hash_seed.push_back(static_cast<uint8_t>(random()));
  config.max_num_queued_reqs = options.max_num_queued_reqs;
  config.max_num_queued_tokens = options.max_num_queued_tokens;
  config.num_blocks = plan.num_blocks;
  config.enable_prefix_cache = options.enable_prefix_caching;
  config.vocab_size = vocab_size;
  return config;
}

std::string TextOf(const text::Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? std::string(tokenizer.TokenPiece(*id)) : std::string();
}

struct TemplateText {
  std::string text, where;
};

// --chat-template is a file if there is one of that name, otherwise the template itself.
TemplateText ReadTemplate(const std::string& chat_template) {
  std::error_code not_a_path;
  if (std::filesystem::is_regular_file(chat_template, not_a_path)) {
    return {base::ReadFile(chat_template, kMaxTemplateBytes, ErrorKind::kUsage), chat_template};
  }
  if (chat_template.find_first_of("{%\n") == std::string::npos) {
    throw Error(ErrorKind::kUsage, "--chat-template " + base::Printable(chat_template), "is no file and no template",
                "give the path of a .jinja file, or the template itself");
  }
  return {chat_template, "--chat-template"};
}

std::shared_ptr<const text::ChatTemplate> MakeTemplate(const formats::Checkpoint& checkpoint,
                                                       const base::ServeOptions& options,
                                                       const text::Tokenizer& tokenizer) {
  TemplateText source{checkpoint.chat_template.value_or(""), checkpoint.chat_template_source};
  if (!options.chat_template.empty()) source = ReadTemplate(options.chat_template);
  if (source.text.empty()) return nullptr;
  return std::make_shared<const text::ChatTemplate>(source.text, TextOf(tokenizer, tokenizer.bos_id()),
                                                    TextOf(tokenizer, tokenizer.eos_id()), source.where);
}

std::string GenerationConfigPath(const std::string& model) {
  std::error_code error;
  const std::filesystem::path path(model);
  return ((std::filesystem::is_directory(path, error) ? path : path.parent_path()) / "generation_config.json").string();
}

// Ends of replies that the vocabulary does not have end none, and no rule about them can be kept.
void DropUnknownEosIds(const std::string& path, int64_t vocab_size, std::vector<int32_t>* ids) {
  const size_t before = ids->size();
  std::erase_if(*ids, [&](int32_t id) {
    if (id < vocab_size) return false;
    base::LogWarning("{}: \"eos_token_id\" has {}, but the vocabulary has {} tokens: no reply will end with it",
                     base::Printable(path, 4096), id, vocab_size);
    return true;
  });
  if (before > 0 && ids->empty()) {
    base::LogWarning("{}: no token ends a reply: correct \"eos_token_id\", or send stop or max_tokens in requests",
                     base::Printable(path, 4096));
  }
}

// What turns text into tokens and back.
struct TextParts {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;
};

// Built beside the weights. The vocabulary of the file is used up: the tokenizer has its own.
std::shared_future<TextParts> StartTextParts(formats::Checkpoint& checkpoint, const base::ServeOptions& options) {
  const auto make = [&checkpoint, &options] {
    TextParts parts;
    parts.tokenizer = std::make_shared<const text::Tokenizer>(MakeTokenizerSpec(std::move(checkpoint.tokenizer)));
    parts.chat_template = MakeTemplate(checkpoint, options, *parts.tokenizer);
    return parts;
  };
  return std::async(std::launch::async, make).share();
}

void ThrowIfFailed(const std::shared_future<TextParts>& parts) {
  if (parts.wait_for(std::chrono::seconds(0)) == std::future_status::ready) parts.get();
}

}  // namespace

void CheckSettings(const base::ServeOptions& options) {
  CheckModelName(options);
  base::SelectIsa(base::DetectCpu(), options.max_isa);
  if (!options.chat_template.empty()) ReadTemplate(options.chat_template);
  StepLimits(options);
}

std::unique_ptr<Llm> BuildLlm(const base::ServeOptions& options) {
  auto running = std::make_shared<Running>();
  LoadedModel& loaded = running->loaded;
  loaded = DeclareModel(options);
  backend::Backend& backend = *loaded.backend;
  formats::Checkpoint& checkpoint = *loaded.checkpoint;
  const int64_t vocab_size = loaded.model->info().vocab_size;
  base::LogInfo("{}: {}, {} layers; {}", checkpoint.path, loaded.model->info().architecture,
                loaded.model->info().num_layers, backend.Describe());

  if (options.generation_config == "auto") {
    CheckGenerationConfig(checkpoint.generation_config, GenerationConfigPath(checkpoint.path));
  }
  DropUnknownEosIds(checkpoint.path, vocab_size, &checkpoint.eos_token_ids);
  const int block_size = backend.DefaultBlockSize();
  const engine::MemoryPlan plan = Plan(loaded, options);
  const std::shared_future<TextParts> text = StartTextParts(checkpoint, options);
  LoadWeights(loaded, [&text] { ThrowIfFailed(text); });
  running->kv = backend.MakeKvStore(loaded.model->Kv(backend.DefaultKvDType()), block_size, plan.num_blocks);

  LlmParts parts;
  parts.tokenizer = text.get().tokenizer;
  parts.chat_template = text.get().chat_template;
  auto executor = std::make_unique<engine::ModelExecutor>(*loaded.model, backend, *running->kv, plan.scratch_bytes,
                                                          ChooseSamplingThreads(loaded, options));
  parts.engine =
      std::make_unique<engine::Engine>(MakeEngineConfig(options, plan, block_size, vocab_size), std::move(executor));
  parts.eos_token_ids = checkpoint.eos_token_ids;
  if (options.generation_config == "auto") parts.generation_config = checkpoint.generation_config;
  parts.max_model_len = static_cast<int32_t>(plan.max_model_len);
  parts.vocab_size = static_cast<int32_t>(vocab_size);
  parts.max_logprobs = static_cast<int32_t>(options.max_logprobs == -1 ? vocab_size : options.max_logprobs);
  parts.priority_scheduling = options.scheduling_policy == "priority";
  parts.seed = static_cast<uint64_t>(options.seed);
  parts.model_path = options.model;
  parts.architecture = loaded.model->info().architecture;
  parts.engine_owner = std::move(running);
  return std::make_unique<Llm>(std::move(parts));
}

}  // namespace peng::api
