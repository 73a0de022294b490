// SPDX-License-Identifier: Apache-2.0
#include "backend/ops.h"

namespace peng::backend {

void Ops::AddRmsNorm(Tensor x, Tensor y, const PreparedWeight& weight, double eps, Tensor out) {
  Add(x, y);
  RmsNorm(x, weight, eps, out);
}

void Ops::RopeWriteKv(Tensor q, Tensor k, Tensor v, const RopeTable& table, const AttentionShape& shape,
                      const ForwardBatch& batch, KvStore& kv, int layer) {
  Rope(q, shape.num_heads, shape.head_dim, table, batch.positions);
  Rope(k, shape.num_kv_heads, shape.head_dim, table, batch.positions);
  WriteKv(k, v, batch, kv, layer);
}

void Ops::GateUpSwiGlu(Tensor x, int num_prompt_rows, const PreparedWeight& gate, const PreparedWeight& up,
                       Tensor scratch, Tensor out) {
  const Tensor g = scratch.Cols(0, gate.rows());
  const Tensor u = scratch.Cols(gate.rows(), gate.rows() + up.rows());
  const LinearPart parts[] = {{&gate, nullptr, g}, {&up, nullptr, u}};
  Linear(x, num_prompt_rows, parts);
  SwiGlu(g, u, out);
}

}  // namespace peng::backend
