// SPDX-License-Identifier: Apache-2.0
#include "api/tokenizer_spec.h"

namespace peng::api {

text::TokenizerSpec MakeTokenizerSpec(const formats::TokenizerData& data) {
  text::TokenizerSpec spec;
  spec.where = data.source;
  if (!data.tokenizer_json.empty()) {
    spec.source = text::HfTokenizerSpec{data.tokenizer_json, data.tokenizer_config_json};
    return spec;
  }
  text::GgufVocabulary vocabulary;
  vocabulary.model = data.model;
  vocabulary.pre = data.pre;
  vocabulary.tokens = data.tokens;
  vocabulary.token_types = data.token_types;
  vocabulary.merges = data.merges;
  vocabulary.scores = data.scores;
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
