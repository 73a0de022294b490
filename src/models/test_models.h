// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "models/model.h"

namespace peng::models {

inline std::unique_ptr<backend::Backend> MakeFloat32Backend() {
  backend::cpu::CpuBackendConfig config;
  config.compute = backend::ComputeType::kFloat32;
  return backend::cpu::MakeCpuBackend(config);
}

// The logits of the last of `ids`, all given in one step of prompt rows.
inline std::vector<float> LastLogits(backend::Backend& backend, const Model& model, const std::vector<int32_t>& ids,
                                     backend::Communicator* comm = nullptr) {
  const int rows = static_cast<int>(ids.size()), block = backend.DefaultBlockSize();
  const int blocks = (rows + block - 1) / block;
  const auto kv = backend.MakeKvStore(model.Kv(backend.DefaultKvDType()), block, blocks + 1);
  backend::ForwardBatch batch;
  batch.token_ids = ids;
  batch.adapter_ids.assign(ids.size(), 0);
  batch.num_prompt_rows = rows;
  batch.logit_rows = {rows - 1};
  backend::BatchSequence sequence;
  sequence.num_rows = rows;
  for (int b = 1; b <= blocks; ++b) sequence.block_table.push_back(b);
  for (int r = 0; r < rows; ++r) {
    batch.positions.push_back(r);
    batch.slots.push_back(int64_t{sequence.block_table[r / block]} * block + r % block);
  }
  batch.sequences = {sequence};
  const auto arena = backend.MakeArena(64 << 20);
  backend::ExecContext ctx{backend.ops(), *arena, *kv, batch, comm};
  const backend::Tensor logits = model.Forward(ctx);
  std::vector<float> values(static_cast<size_t>(logits.rows * logits.cols));
  backend.Read(logits, values.data());
  return values;
}

}  // namespace peng::models
