// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "formats/model_config.h"
#include "formats/weight_map.h"

namespace peng::models {

// The two spellings of a tensor's name, without the layer prefix.
struct WeightName {
  std::string_view hf;
  std::string_view gguf;
};

// Rank of this process among those that hold one model.
struct Rank {
  int rank = 0;
  int size = 1;
};

// Collects what a model needs while its constructor runs, checks every tensor's presence, shape and format before
// anything is loaded, then loads. So a missing shard or a plan that does not fit is known in milliseconds.
class WeightLoader {
 public:
  using Slot = std::unique_ptr<backend::PreparedWeight>;
  using Progress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

  WeightLoader(const formats::WeightMap& weights, backend::Backend& backend, Rank rank = {});

  // Full tensor name: "model.layers.3." + name.hf or "blk.3." + name.gguf; layer -1 = no prefix of a layer.
  std::string FullName(int layer, WeightName name) const;
  bool Has(int layer, WeightName name) const;
  formats::Naming naming() const;
  Rank rank() const { return rank_; }
  // Element type of the activations that the backend computes with.
  tensor::DType activation_dtype() const { return backend_.activation_dtype(); }
  // A vector of `cols` values, read and decoded at once: for tables that a constructor computes with (rope factors).
  // nullopt if there is no such tensor; throws as Want does.
  std::optional<std::vector<float>> ReadVector(int layer, WeightName name, int64_t cols) const;

  // Declares that `slot` wants the weight [rows, cols], or only the rank's part `slice` of it; until LoadAll it holds a
  // backend::PlannedWeight. Throws base::Error (kModelFile) naming the tensor if it is absent, of another shape, or of
  // a format the backend does not take.
  void Want(Slot& slot, int layer, WeightName name, int64_t rows, int64_t cols, backend::WeightUse use,
            std::optional<formats::Slice> slice = {}, const backend::Partition& partition = {});

  // Bytes that the backend will keep for all that was declared.
  int64_t planned_bytes() const { return planned_bytes_; }
  // Bytes of the file that the backend will keep reading from, in its place.
  int64_t mapped_bytes() const { return mapped_bytes_; }
  // Bytes of the file that will be read.
  int64_t file_bytes() const { return file_bytes_; }

  // Loads everything into the declared slots, which must still be where they were. `progress` is called from several
  // threads, one at a time; what it throws ends the loading.
  void LoadAll(const Progress& progress = {});

 private:
  formats::WeightInfo Check(const std::string& name, int64_t rows, int64_t cols) const;

  struct Wanted {
    Slot* slot;
    std::string name;
    backend::WeightUse use;
    std::optional<formats::Slice> slice;
    backend::Partition partition;
    int64_t file_bytes;
  };
  const formats::WeightMap& weights_;
  backend::Backend& backend_;
  Rank rank_;
  std::vector<Wanted> wanted_;
  int64_t planned_bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  int64_t file_bytes_ = 0;
};

}  // namespace peng::models
