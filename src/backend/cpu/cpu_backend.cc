// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/cpu_backend.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kv_store.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/pack_queue.h"
#include "backend/cpu/weights.h"
#include "base/check.h"
#include "base/error.h"
#include "base/topology.h"

namespace peng::backend::cpu {
namespace {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuBackendConfig& config)
      : config_(config),
        isa_(config.isa & HostIsa()),
        pool_(config.pool),
        vector_(ChooseVectorKernels(isa_)),
        memory_(pool_.num_shards()),
        ops_(pool_, vector_) {}

  std::string_view name() const override { return "cpu"; }
  std::string Describe() const override;
  Ops& ops() override { return ops_; }
  tensor::DType activation_dtype() const override { return tensor::DType::kF32; }

  std::unique_ptr<PreparedWeight> Prepare(tensor::Weight&& weight, WeightUse use, const Partition& partition) override;
  void PrepareAll(std::span<PrepareJob> jobs, const std::function<void(size_t)>& done) override;
  int64_t PreparedBytes(int64_t rows, int64_t cols, tensor::Format format, WeightUse use) const override;

  int64_t KvBlockBytes(std::span<const KvSpec> specs, int block_size) const override;
  std::unique_ptr<KvStore> MakeKvStore(std::span<const KvSpec> specs, int block_size, int num_blocks) override;
  tensor::DType DefaultKvDType() const override;
  int DefaultBlockSize() const override { return config_.block_size; }

  std::unique_ptr<Arena> MakeArena(int64_t bytes) override { return std::make_unique<CpuArena>(bytes); }
  int64_t FreeMemoryBytes() const override { return base::AvailableMemoryBytes(); }

  void Read(Tensor from, void* to) override;
  void Write(const void* from, Tensor to) override;
  void Sync() override {}

 private:
  void TakeMemory(std::span<CpuMatrix* const> matrices);

  CpuBackendConfig config_;
  uint32_t isa_;
  base::ThreadPool pool_;
  const VectorKernels& vector_;
  WeightMemory memory_;
  CpuOps ops_;
};

std::string CpuBackend::Describe() const {
  const char* compute = config_.compute == ComputeType::kFloat32 ? "float32" : "auto";
  return fmt::format("cpu: {} ({} vectors), {} threads on {} node{}, compute {}", IsaNames(isa_), vector_.name,
                     pool_.num_workers(), pool_.num_shards(), pool_.num_shards() == 1 ? "" : "s", compute);
}

std::unique_ptr<PreparedWeight> CpuBackend::Prepare(tensor::Weight&& weight, WeightUse use,
                                                    const Partition& partition) {
  std::unique_ptr<PreparedWeight> prepared;
  PrepareJob job{std::move(weight), use, partition, &prepared};
  PrepareAll({&job, 1}, {});
  return prepared;
}

// Rows of a packed matrix can be decoded, so tied embeddings need no second copy.
void CpuBackend::PrepareAll(std::span<PrepareJob> jobs, const std::function<void(size_t)>& done) {
  PackQueue queue(pool_);
  std::vector<CpuMatrix*> matrices;
  for (size_t i = 0; i < jobs.size(); ++i) {
    PrepareJob& job = jobs[i];
    if (job.use == WeightUse::kEmbedding) {
      *job.slot = std::make_unique<MappedTable>(std::move(job.weight));
      if (done) done(i);
    } else if (job.use == WeightUse::kVector) {
      queue.Add(i, job.weight, [&job] { *job.slot = std::make_unique<CpuVector>(job.weight); });
    } else {
      auto matrix = std::make_unique<CpuMatrix>(job.weight, job.partition, config_.compute, isa_, pool_.num_shards());
      queue.Add(i, job.weight, *matrix);
      matrices.push_back(matrix.get());
      *job.slot = std::move(matrix);
    }
  }
  TakeMemory(matrices);
  queue.Run(done);
}

// One piece per shard for all that is loaded together.
void CpuBackend::TakeMemory(std::span<CpuMatrix* const> matrices) {
  for (int shard = 0; shard < pool_.num_shards() && matrices.size() > 1; ++shard) {
    int64_t bytes = 0;
    for (const CpuMatrix* matrix : matrices) bytes += matrix->ShardBytes(shard);
    memory_.Reserve(shard, bytes);
  }
  for (CpuMatrix* matrix : matrices) matrix->TakeMemory(memory_);
}

int64_t CpuBackend::PreparedBytes(int64_t rows, int64_t cols, tensor::Format format, WeightUse use) const {
  if (use == WeightUse::kEmbedding) return 0;  // stays in the mapped file
  if (use == WeightUse::kVector) return rows * cols * static_cast<int64_t>(sizeof(float));
  return PackedMatrixBytes(rows, cols, format, pool_.num_shards());
}

int64_t CpuBackend::KvBlockBytes(std::span<const KvSpec> specs, int block_size) const {
  CheckKvSpecs(specs, block_size);
  int64_t bytes = 0;
  for (int s = 0; s < pool_.num_shards(); ++s) bytes += ShardBlockBytes(specs, block_size, s, pool_.num_shards());
  return bytes;
}

std::unique_ptr<KvStore> CpuBackend::MakeKvStore(std::span<const KvSpec> specs, int block_size, int num_blocks) {
  return std::make_unique<CpuKvStore>(specs, block_size, num_blocks, pool_.num_shards());
}

tensor::DType CpuBackend::DefaultKvDType() const {
  if (config_.kv_dtype) return *config_.kv_dtype;
  return config_.compute == ComputeType::kFloat32 ? tensor::DType::kF32 : tensor::DType::kBF16;
}

void CpuBackend::Read(Tensor from, void* to) {
  const size_t row_bytes = static_cast<size_t>(from.cols) * tensor::DTypeBytes(from.dtype);
  for (int64_t r = 0; r < from.rows; ++r) {
    std::memcpy(static_cast<std::byte*>(to) + r * row_bytes, from.Rows(r, r + 1).data, row_bytes);
  }
}

void CpuBackend::Write(const void* from, Tensor to) {
  const size_t row_bytes = static_cast<size_t>(to.cols) * tensor::DTypeBytes(to.dtype);
  for (int64_t r = 0; r < to.rows; ++r) {
    std::memcpy(to.Rows(r, r + 1).data, static_cast<const std::byte*>(from) + r * row_bytes, row_bytes);
  }
}

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(const CpuBackendConfig& config) { return std::make_unique<CpuBackend>(config); }

}  // namespace peng::backend::cpu
