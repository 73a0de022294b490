// SPDX-License-Identifier: Apache-2.0
#include "api/loaded_model.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "api/model_path.h"
#include "backend/cpu/cpu_backend.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/log.h"
#include "base/topology.h"
#include "models/registry.h"

namespace peng::api {
namespace {

using base::Error;
using base::ErrorKind;

std::optional<tensor::DType> KvDType(const std::string& name) {
  if (name == "bfloat16") return tensor::DType::kBF16;
  if (name == "float16") return tensor::DType::kF16;
  if (name == "float32") return tensor::DType::kF32;
  return std::nullopt;  // auto
}

base::PoolSpec MakePool(int64_t cpu_threads) {
  const base::Topology topology = base::DetectTopology();
  const base::ThreadBudget budget = base::DefaultThreads(topology, base::ReadCgroupLimits());
  const int threads = cpu_threads > 0 ? static_cast<int>(cpu_threads) : budget.threads;
  if (threads > budget.max_useful) {
    base::LogWarning(
        "--cpu-threads {} is more than the {} CPUs that this process may use at once: threads will wait "
        "for each other",
        threads, budget.max_useful);
  }
  base::LogInfo("{} compute threads ({})", threads, cpu_threads > 0 ? "--cpu-threads" : budget.reason);
  base::PoolSpec pool;
  pool.max_cpus = budget.max_useful;
  pool.shards = base::PlaceThreads(topology, threads);
  return pool;
}

std::unique_ptr<backend::Backend> MakeBackend(const base::ServeOptions& options, base::PoolSpec pool) {
  backend::cpu::CpuBackendConfig config;
  config.compute = options.dtype == "float32" ? backend::ComputeType::kFloat32 : backend::ComputeType::kAuto;
  const base::Isa isa = base::SelectIsa(base::DetectCpu(), options.max_isa);
  config.isa = backend::cpu::IsaUpTo(base::IsaName(isa)).value_or(0);
  config.kv_dtype = KvDType(options.kv_cache_dtype);
  if (options.block_size > 0) config.block_size = static_cast<int>(options.block_size);
  config.pool = std::move(pool);
  return backend::cpu::MakeCpuBackend(config);
}

// One line that is written over itself, on a terminal only.
class ProgressBar {
 public:
  void Update(int64_t done, int64_t total) {
    if (!terminal_ || total <= 0) return;
    const int percent = static_cast<int>(done * 100 / total);
    if (percent == percent_) return;
    percent_ = percent;
    constexpr int kWidth = 40;
    const std::string bar(static_cast<size_t>(percent * kWidth / 100), '#');
    std::fprintf(stderr, "\rloading weights [%-*s] %3d %% of %.1f MB", kWidth, bar.c_str(), percent,
                 static_cast<double>(total) / 1e6);
  }
  ~ProgressBar() {
    if (terminal_ && percent_ >= 0) std::fputc('\n', stderr);
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  int percent_ = -1;
};

}  // namespace

LoadedModel DeclareModel(const base::ServeOptions& options) {
  LoadedModel loaded;
  loaded.checkpoint = std::make_unique<formats::Checkpoint>(formats::OpenCheckpoint(ResolveModel(options)));
  base::PoolSpec pool = MakePool(options.cpu_threads);
  for (const auto& lanes : pool.shards) loaded.num_threads += static_cast<int>(lanes.size());
  loaded.backend = MakeBackend(options, std::move(pool));
  loaded.loader = std::make_unique<models::WeightLoader>(*loaded.checkpoint->weights, *loaded.backend);
  loaded.model = models::MakeModel(loaded.checkpoint->config, *loaded.loader);
  return loaded;
}

void LoadWeights(LoadedModel& loaded, const std::function<void()>& check) {
  ProgressBar bar;
  loaded.loader->LoadAll([&](int64_t done, int64_t total) {
    bar.Update(done, total);
    if (check) check();
  });
}

}  // namespace peng::api
