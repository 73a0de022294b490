// SPDX-License-Identifier: Apache-2.0
#include "api/tokenizer_spec.h"

#include <utility>

namespace peng::api {

text::TokenizerSpec MakeTokenizerSpec(formats::TokenizerData data) {
  text::TokenizerSpec spec;
  spec.where = std::move(data.source);
  if (!data.tokenizer_json.empty()) {
    spec.source = text::HfTokenizerSpec{std::move(data.tokenizer_json), std::move(data.tokenizer_config_json)};
    return spec;
  }
  text::GgufVocabulary vocabulary;
  vocabulary.model = std::move(data.model);
  vocabulary.pre = std::move(data.pre);
  vocabulary.tokens = std::move(data.tokens);
  vocabulary.token_types = std::move(data.token_types);
  vocabulary.merges = std::move(data.merges);
  vocabulary.scores = std::move(data.scores);
  vocabulary.bos_id = data.bos_id;
  vocabulary.eos_id = data.eos_id;
  vocabulary.unk_id = data.unk_id;
  vocabulary.pad_id = data.pad_id;
  vocabulary.add_bos = data.add_bos;
  vocabulary.add_eos = data.add_eos;
  vocabulary.add_space_prefix = data.add_space_prefix;
  spec.source = std::move(vocabulary);
  return spec;
}

}  // namespace peng::api
