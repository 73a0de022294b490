// SPDX-License-Identifier: Apache-2.0
// A config.json is refused, or the model it describes asks for its first tensor: there are none, so it is refused then.
#include "formats/files.h"
#include "formats/hf_model.h"
#include "formats/mapped_weights.h"
#include "fuzz.h"
#include "models/registry.h"

namespace {

using namespace peng;

// No weight is ever there, so nothing is computed.
class NoBackend : public backend::Backend {
 public:
  std::string_view name() const override { return "none"; }
  std::string Describe() const override { return ""; }
  backend::Ops& ops() override { std::abort(); }
  tensor::DType activation_dtype() const override { return tensor::DType::kF32; }
  std::unique_ptr<backend::PreparedWeight> Prepare(tensor::Weight&&, backend::WeightUse,
                                                   const backend::Partition&) override {
    std::abort();
  }
  int64_t PreparedBytes(int64_t, int64_t, tensor::Format, backend::WeightUse) const override { std::abort(); }
  int64_t KvBlockBytes(std::span<const backend::KvSpec>, int) const override { std::abort(); }
  std::unique_ptr<backend::KvStore> MakeKvStore(std::span<const backend::KvSpec>, int, int) override { std::abort(); }
  tensor::DType DefaultKvDType() const override { return tensor::DType::kF32; }
  int DefaultBlockSize() const override { return 32; }
  std::unique_ptr<backend::Arena> MakeArena(int64_t) override { std::abort(); }
  int64_t FreeMemoryBytes() const override { return 0; }
  void Read(backend::Tensor, void*) override {}
  void Write(const void*, backend::Tensor) override {}
  void Sync() override {}
};

void MakeModelOf(const base::Json& json) {
  NoBackend backend;
  const formats::MappedWeights no_weights(formats::Naming::kHf, "fuzz");
  models::WeightLoader loader(no_weights, backend);
  models::MakeModel({"config.json", json}, loader);
  fuzz::Check(false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::ExpectRefusalOnly([&] {
    const base::Json json = formats::ParseJsonObject("config.json", fuzz::Text(data, size));
    std::vector<int32_t> ids;
    fuzz::ExpectRefusalOnly([&] { formats::AddEosIds("config.json", json, ids); });
    fuzz::ExpectRefusalOnly([&] { formats::ChatTemplateOf("tokenizer_config.json", json); });
    MakeModelOf(json);
  });
  return 0;
}
