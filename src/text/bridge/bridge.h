// SPDX-License-Identifier: Apache-2.0
#pragma once

// C ABI of the Rust library in this folder (src/*.rs). Handles may be read from several threads at once unless a
// function takes a non-const one. Functions that can fail return kPengBridgeOk or fill `error` (release it).

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  kPengBridgeOk = 0,
  kPengBridgeFailed = 1,
  kPengBridgeRaised = 2,  // the chat template called raise_exception
};

typedef struct PengStr {  // borrowed
  const char* data;
  size_t size;
} PengStr;

typedef struct PengBuf {  // owned: peng_buf_free
  char* data;
  size_t size;
  size_t capacity;
} PengBuf;

typedef struct PengIds {  // owned: peng_ids_free
  uint32_t* data;
  size_t size;
  size_t capacity;
} PengIds;

void peng_buf_free(PengBuf* buf);
void peng_ids_free(PengIds* ids);

// Tokenizers.
typedef struct PengTokenizer PengTokenizer;

typedef struct PengGguf {
  const PengStr* tokens;
  size_t n_tokens;
  const int32_t* types;   // n_tokens values of the GGUF token types, or null
  const PengStr* merges;  // "left right"
  size_t n_merges;
  const float* scores;  // n_tokens values; sentencepiece only
  bool sentencepiece;
  bool add_space_prefix;
  bool ignore_merges;
  PengStr pre_tokenizer;  // JSON as in tokenizer.json; empty: none
  PengStr normalizer;
} PengGguf;

int32_t peng_tokenizer_from_json(PengStr json, PengTokenizer** out, PengBuf* error);
int32_t peng_tokenizer_from_gguf(const PengGguf* gguf, PengTokenizer** out, PengBuf* error);
void peng_tokenizer_free(PengTokenizer* tok);
int32_t peng_tokenizer_encode(const PengTokenizer* tok, PengStr text, PengIds* out, PengBuf* error);
size_t peng_tokenizer_vocab_size(const PengTokenizer* tok);
PengStr peng_tokenizer_bytes(const PengTokenizer* tok, uint32_t id);  // alive as long as tok
PengStr peng_tokenizer_piece(const PengTokenizer* tok, uint32_t id);  // alive as long as tok
bool peng_tokenizer_is_special(const PengTokenizer* tok, uint32_t id);
bool peng_tokenizer_strips_leading_space(const PengTokenizer* tok);
int64_t peng_tokenizer_id(const PengTokenizer* tok, PengStr piece);  // -1: none
void peng_tokenizer_affix(const PengTokenizer* tok, bool suffix, PengIds* out);

// Chat templates. `context` is a JSON object: its members are the template's variables.
typedef struct PengTemplate PengTemplate;

int32_t peng_template_new(PengStr source, PengTemplate** out, PengBuf* error);
void peng_template_free(PengTemplate* tmpl);
int32_t peng_template_render(const PengTemplate* tmpl, PengStr context, PengBuf* out, PengBuf* error);

// Constrained decoding. kind: "json_schema", "regex" or "lark". Masks: one bit per logit row, 1 = allowed.
typedef struct PengGrammarFactory PengGrammarFactory;
typedef struct PengGrammar PengGrammar;

int32_t peng_grammar_factory_new(const PengTokenizer* tok, size_t rows, const uint32_t* eos, size_t n_eos,
                                 PengGrammarFactory** out, PengBuf* error);
void peng_grammar_factory_free(PengGrammarFactory* factory);
int32_t peng_grammar_new(const PengGrammarFactory* factory, PengStr kind, PengStr source, PengGrammar** out,
                         PengBuf* error);
void peng_grammar_free(PengGrammar* grammar);
int32_t peng_grammar_mask(PengGrammar* grammar, uint32_t* words, size_t n_words, PengBuf* error);
int32_t peng_grammar_accept(PengGrammar* grammar, const uint32_t* ids, size_t n, PengBuf* error);
int64_t peng_grammar_validate(PengGrammar* grammar, const uint32_t* ids, size_t n, PengBuf* error);
int32_t peng_grammar_rollback(PengGrammar* grammar, size_t n, PengBuf* error);
int32_t peng_grammar_state(PengGrammar* grammar);  // bit 0: may end here; bit 1: nothing more may follow
int32_t peng_grammar_clone(const PengGrammar* grammar, PengGrammar** out, PengBuf* error);

#ifdef __cplusplus
}
#endif
