// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/kv_store.h"
#include "backend/ops.h"
#include "tensor/weight.h"

namespace peng::backend {

// Which rows of a weight belong to which shard (NUMA node, device or rank). Empty = the backend splits evenly.
struct Partition {
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int shard = 0;
  };
  std::vector<Range> rows;
};

// What a weight is used for; a backend may keep a table of embeddings in the mapped file and needs no packed layout.
enum class WeightUse : uint8_t { kLinear, kEmbedding, kVector, kEmbeddingAndLinear };

// Ranks that compute one model together. Null in ExecContext means one rank.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void AllReduceSum(Tensor x) = 0;
  virtual void AllGatherCols(Tensor part, Tensor whole) = 0;
};

// Scratch of one step: a bump allocator over one block of device memory, sized by a dry run. Reset at every step.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual Tensor Alloc(int64_t rows, int64_t cols, tensor::DType dtype) = 0;
  virtual int64_t used_bytes() const = 0;
  virtual int64_t peak_bytes() const = 0;
  virtual void Reset() = 0;
};

// How activations and products are computed. kAuto is bf16 or int8 arithmetic where the hardware has it; kFloat32
// computes everything in float32 from the stored weights: the reference path.
enum class ComputeType : uint8_t { kAuto, kFloat32 };

// A weight to prepare together with others. `slot` outlives the call.
struct PrepareJob {
  tensor::Weight weight;
  WeightUse use = WeightUse::kLinear;
  Partition partition;
  std::unique_ptr<PreparedWeight>* slot = nullptr;  // receives it
};

// A device that runs models: memory, weights, operations.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu"
  virtual std::string Describe() const = 0;   // one line for the log: ISA, threads, nodes
  virtual Ops& ops() = 0;
  virtual tensor::DType activation_dtype() const = 0;

  // Takes a weight of the file into the backend's arrangement, without loss; peak memory is the model plus this tensor.
  // Calls weight.release once the file's bytes are not needed. Throws base::Error for a format it cannot run.
  virtual std::unique_ptr<PreparedWeight> Prepare(tensor::Weight&& weight, WeightUse use,
                                                  const Partition& partition = {}) = 0;
  // Prepares all of them, in any order and several at a time: peak memory is the model plus one tensor per thread.
  // Calls done(index of the job) after each, from any thread but one call at a time; what it throws ends the call, as
  // does what a job throws. The default prepares one after the other.
  virtual void PrepareAll(std::span<PrepareJob> jobs, const std::function<void(size_t)>& done);
  // Bytes that Prepare will keep for such a weight, for the memory plan.
  virtual int64_t PreparedBytes(int64_t rows, int64_t cols, tensor::Format format, WeightUse use) const = 0;

  virtual int64_t KvBlockBytes(std::span<const KvSpec> specs, int block_size) const = 0;
  virtual std::unique_ptr<KvStore> MakeKvStore(std::span<const KvSpec> specs, int block_size, int num_blocks) = 0;
  virtual tensor::DType DefaultKvDType() const = 0;
  virtual int DefaultBlockSize() const = 0;

  // An arena of `bytes`; 0 = counts only (the dry run): its tensors have no memory behind them.
  virtual std::unique_ptr<Arena> MakeArena(int64_t bytes) = 0;

  // Memory that can still be allocated on the device, bytes.
  virtual int64_t FreeMemoryBytes() const = 0;

  // The only ways to touch a tensor's bytes from the host. Read waits until the tensor is computed.
  virtual void Read(Tensor from, void* to) = 0;
  virtual void Write(const void* from, Tensor to) = 0;
  virtual void Sync() = 0;
};

// What a model's Forward runs in.
struct ExecContext {
  Ops& ops;
  Arena& scratch;
  KvStore& kv;
  const ForwardBatch& batch;
  Communicator* comm = nullptr;  // null = one rank
};

}  // namespace peng::backend
