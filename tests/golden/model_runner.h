// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "models/model.h"

namespace peng {

// A sequence in the cache: its blocks and how many tokens of it are computed.
struct Sequence {
  std::vector<int32_t> blocks;
  int length = 0;
};

// A model on the CPU backend with a cache, run step by step without an engine.
class ModelRunner {
 public:
  // `path` is a checkpoint as OpenCheckpoint takes it.
  ModelRunner(const std::string& path, const backend::cpu::CpuBackendConfig& config);

  // Rows of one sequence to compute in a step; all of them give logits.
  struct Rows {
    Sequence* sequence;
    std::vector<int32_t> tokens;
    backend::Phase phase = backend::Phase::kPrompt;
  };
  // Logits [tokens][vocab] of each entry. Prompt rows come first.
  std::vector<std::vector<float>> Step(const std::vector<Rows>& rows);
  // The same with other operations, for watching them.
  std::vector<std::vector<float>> Step(const std::vector<Rows>& rows, backend::Ops& ops);

  // Computes `tokens` as a prompt in chunks; logits of all of them.
  std::vector<float> Prompt(Sequence& sequence, const std::vector<int32_t>& tokens, int chunk);

  // Empties `sequence`; its blocks serve others, who must not share them any more.
  void Drop(Sequence& sequence);

  backend::Backend& backend() { return *backend_; }
  const models::Model& model() const { return *model_; }
  int64_t vocab() const { return model_->info().vocab_size; }
  int block_size() const { return kv_->block_size(); }

 private:
  void AddRows(const Rows& rows, backend::ForwardBatch& batch);

  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<backend::KvStore> kv_;
  std::unique_ptr<backend::Arena> arena_;
  std::vector<int32_t> free_blocks_;
};

}  // namespace peng
