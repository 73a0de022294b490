// SPDX-License-Identifier: Apache-2.0
// A config.json is refused, or the model it describes asks for its first tensor: there are none, so it is refused then.
#include "backend/cpu/cpu_backend.h"
#include "formats/files.h"
#include "formats/hf_model.h"
#include "formats/mapped_weights.h"
#include "fuzz.h"
#include "models/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  static const auto backend = backend::cpu::MakeCpuBackend({});
  fuzz::ExpectRefusalOnly([&] {
    const base::Json json = formats::ParseJsonObject("config.json", fuzz::Text(data, size));
    fuzz::ExpectRefusalOnly([&] {
      std::vector<int32_t> ids;
      formats::AddEosIds("config.json", json, ids);
    });
    fuzz::ExpectRefusalOnly([&] { formats::ChatTemplateOf("tokenizer_config.json", json); });
    const formats::ModelConfig config("config.json", json);
    const formats::MappedWeights no_weights(formats::Naming::kHf, "fuzz");
    models::WeightLoader loader(no_weights, *backend);
    models::MakeModel(config, loader);
    fuzz::Check(false);
  });
  return 0;
}
