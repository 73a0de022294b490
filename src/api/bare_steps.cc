// SPDX-License-Identifier: Apache-2.0
#include "api/bare_steps.h"

#include "engine/model_executor.h"

namespace peng::api {
namespace {

using backend::ForwardBatch;
using backend::Phase;

ForwardBatch MakeBatch(std::span<const std::vector<int32_t>> tokens, int first_position, Phase phase, bool all_logits,
                       int block_size, int blocks_per_sequence, int first_sequence) {
  ForwardBatch batch;
  for (size_t s = 0; s < tokens.size(); ++s) {
    backend::BatchSequence sequence;
    sequence.first_row = batch.num_rows();
    sequence.num_rows = static_cast<int32_t>(tokens[s].size());
    sequence.first_position = first_position;
    sequence.phase = phase;
    const int end = first_position + sequence.num_rows;
    for (int b = 0; b * block_size < end; ++b) {
      sequence.block_table.push_back(1 + (first_sequence + static_cast<int32_t>(s)) * blocks_per_sequence + b);
    }
    for (int position = first_position; position < end; ++position) {
      batch.positions.push_back(position);
      batch.slots.push_back(int64_t{sequence.block_table[position / block_size]} * block_size + position % block_size);
      if (all_logits || position == end - 1) {
        batch.logit_rows.push_back(sequence.first_row + position - first_position);
      }
    }
    batch.token_ids.insert(batch.token_ids.end(), tokens[s].begin(), tokens[s].end());
    batch.sequences.push_back(std::move(sequence));
  }
  batch.adapter_ids.assign(batch.token_ids.size(), 0);
  batch.num_prompt_rows = phase == Phase::kPrompt ? batch.num_rows() : 0;
  return batch;
}

}  // namespace

BareSteps::BareSteps(LoadedModel& loaded, int num_sequences, int max_positions, int max_rows, int max_logit_rows)
    : loaded_(loaded) {
  backend::Backend& backend = *loaded.backend;
  const int block_size = backend.DefaultBlockSize();
  blocks_per_sequence_ = (max_positions + block_size - 1) / block_size;
  kv_ = backend.MakeKvStore(loaded.model->Kv(backend.DefaultKvDType()), block_size,
                            1 + num_sequences * blocks_per_sequence_);
  arena_ = backend.MakeArena(engine::ScratchBytes(*loaded.model, backend, max_rows, max_logit_rows, block_size));
}

std::span<const float> BareSteps::Run(std::span<const std::vector<int32_t>> tokens, int first_position, Phase phase,
                                      bool all_logits, int first_sequence) {
  const ForwardBatch batch =
      MakeBatch(tokens, first_position, phase, all_logits, kv_->block_size(), blocks_per_sequence_, first_sequence);
  arena_->Reset();
  backend::ExecContext ctx{loaded_.backend->ops(), *arena_, *kv_, batch};
  const backend::Tensor logits = loaded_.model->Forward(ctx);
  logits_.resize(static_cast<size_t>(logits.rows * logits.cols));
  loaded_.backend->Read(logits, logits_.data());
  return logits_;
}

}  // namespace peng::api
