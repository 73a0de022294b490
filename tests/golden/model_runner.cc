// SPDX-License-Identifier: Apache-2.0
#include "model_runner.h"

#include <algorithm>

#include "base/check.h"
#include "engine/model_executor.h"
#include "formats/checkpoint.h"
#include "models/registry.h"

namespace peng {
namespace {

constexpr int kMaxRows = 512;
constexpr int kNumBlocks = 600;

}  // namespace

ModelRunner::ModelRunner(const std::string& path, const backend::cpu::CpuBackendConfig& config)
    : backend_(backend::cpu::MakeCpuBackend(config)) {
  const formats::Checkpoint checkpoint = formats::OpenCheckpoint(path);
  models::WeightLoader loader(*checkpoint.weights, *backend_);
  model_ = models::MakeModel(checkpoint.config, loader);
  loader.LoadAll();
  for (int block = kNumBlocks - 1; block > 0; --block) free_blocks_.push_back(block);
  kv_ = backend_->MakeKvStore(model_->Kv(backend_->DefaultKvDType()), backend_->DefaultBlockSize(), kNumBlocks);

  arena_ = backend_->MakeArena(engine::ScratchBytes(*model_, *backend_, kMaxRows, kMaxRows, block_size()));
}

void ModelRunner::AddRows(const Rows& rows, backend::ForwardBatch& batch) {
  Sequence& s = *rows.sequence;
  backend::BatchSequence sequence;
  sequence.first_row = batch.num_rows();
  sequence.num_rows = static_cast<int32_t>(rows.tokens.size());
  sequence.first_position = s.length;
  sequence.phase = rows.phase;
  for (int32_t token : rows.tokens) {
    if (s.length == static_cast<int>(s.blocks.size()) * block_size()) {
      PENG_CHECK(!free_blocks_.empty());
      s.blocks.push_back(free_blocks_.back());
      free_blocks_.pop_back();
    }
    batch.token_ids.push_back(token);
    batch.positions.push_back(s.length);
    batch.slots.push_back(int64_t{s.blocks[s.length / block_size()]} * block_size() + s.length % block_size());
    batch.adapter_ids.push_back(0);
    batch.logit_rows.push_back(batch.num_rows() - 1);
    ++s.length;
  }
  sequence.block_table = s.blocks;
  batch.sequences.push_back(std::move(sequence));
  if (rows.phase == backend::Phase::kPrompt) batch.num_prompt_rows = batch.num_rows();
}

std::vector<std::vector<float>> ModelRunner::Step(const std::vector<Rows>& rows) { return Step(rows, backend_->ops()); }

std::vector<std::vector<float>> ModelRunner::Step(const std::vector<Rows>& rows, backend::Ops& ops) {
  backend::ForwardBatch batch;
  for (const Rows& r : rows) AddRows(r, batch);
  PENG_CHECK(batch.num_rows() <= kMaxRows);
  arena_->Reset();
  backend::ExecContext context{ops, *arena_, *kv_, batch};
  const backend::Tensor logits = model_->Forward(context);
  std::vector<std::vector<float>> result;
  for (const backend::BatchSequence& s : batch.sequences) {
    std::vector<float> values(static_cast<size_t>(s.num_rows * vocab()));
    backend_->Read(logits.Rows(s.first_row, s.first_row + s.num_rows), values.data());
    result.push_back(std::move(values));
  }
  return result;
}

void ModelRunner::Drop(Sequence& sequence) {
  free_blocks_.insert(free_blocks_.end(), sequence.blocks.begin(), sequence.blocks.end());
  sequence = {};
}

std::vector<float> ModelRunner::Prompt(Sequence& sequence, const std::vector<int32_t>& tokens, int chunk) {
  std::vector<float> logits;
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const size_t end = std::min(at + chunk, tokens.size());
    const auto step = Step({{&sequence, {tokens.begin() + at, tokens.begin() + end}}});
    logits.insert(logits.end(), step[0].begin(), step[0].end());
  }
  return logits;
}

}  // namespace peng
