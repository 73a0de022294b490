// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/bridge_call.h"
#include "text/gguf_kinds.h"
#include "text/tokenizer_handle.h"
#include "text/utf8_stream.h"

namespace peng::text {
namespace {

using base::Error;
using base::ErrorKind;

constexpr std::string_view kRefetch = "get the file again or choose another model";

[[noreturn]] void Refuse(const std::string& where, const std::string& what, std::string_view action = kRefetch) {
  throw Error(ErrorKind::kModelFile, where, what, action);
}

std::vector<PengStr> Views(const std::vector<std::string>& texts) {
  std::vector<PengStr> views;
  views.reserve(texts.size());
  for (const std::string& text : texts) views.push_back(ToBridge(text));
  return views;
}

std::vector<int32_t> TakeIds(PengIds* ids) {
  std::vector<int32_t> taken(ids->data, ids->data + ids->size);
  peng_ids_free(ids);
  return taken;
}

std::vector<int32_t> Affix(const PengTokenizer* tok, bool suffix) {
  PengIds ids{};
  peng_tokenizer_affix(tok, suffix, &ids);
  return TakeIds(&ids);
}

// A token of tokenizer_config.json: its text, or an object with it.
const std::string* TokenContent(const base::Json* token) {
  if (token != nullptr && token->is_object()) token = token->Find("content");
  return token != nullptr && token->is_string() ? &token->as_string() : nullptr;
}

void CheckCounts(const GgufVocabulary& v, const std::string& where) {
  const auto check = [&](size_t count, const char* key) {
    if (count != 0 && count != v.tokens.size()) {
      Refuse(where, std::string("tokenizer.ggml.") + key + " has " + std::to_string(count) + " entries for " +
                        std::to_string(v.tokens.size()) + " tokens");
    }
  };
  if (v.tokens.empty()) Refuse(where, "tokenizer.ggml.tokens is missing or empty");
  check(v.token_types.size(), "token_type");
  check(v.scores.size(), "scores");
}

std::optional<int32_t> CheckId(std::optional<int64_t> id, const GgufVocabulary& v, const char* key,
                               const std::string& where) {
  if (!id.has_value()) return std::nullopt;
  if (*id < 0 || *id >= static_cast<int64_t>(v.tokens.size())) {
    Refuse(where, std::string("tokenizer.ggml.") + key + " is " + std::to_string(*id) + ", outside the " +
                      std::to_string(v.tokens.size()) + " tokens");
  }
  return static_cast<int32_t>(*id);
}

}  // namespace

Tokenizer::Tokenizer(const TokenizerSpec& spec) : handle_(std::make_unique<TokenizerHandle>()) {
  if (const auto* hf = std::get_if<HfTokenizerSpec>(&spec.source)) {
    InitFromHf(*hf, spec.where);
  } else {
    InitFromGguf(std::get<GgufVocabulary>(spec.source), spec.where);
  }
  vocab_size_ = static_cast<int32_t>(peng_tokenizer_vocab_size(handle_->tok));
  for (int32_t id = 0; id < vocab_size_; ++id) max_token_bytes_ = std::max(max_token_bytes_, TokenBytes(id).size());
  strips_leading_space_ = peng_tokenizer_strips_leading_space(handle_->tok);
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::InitFromHf(const HfTokenizerSpec& spec, const std::string& where) {
  BridgeBuf error;
  if (peng_tokenizer_from_json(ToBridge(spec.tokenizer_json), &handle_->tok, error.out()) != kPengBridgeOk) {
    Refuse(where, "the tokenizer is refused: " + base::Printable(error.view()));
  }
  prefix_ = Affix(handle_->tok, false);
  suffix_ = Affix(handle_->tok, true);
  if (!prefix_.empty()) bos_id_ = prefix_.front();
  add_bos_ = !prefix_.empty();
  add_eos_ = !suffix_.empty();
  if (!spec.tokenizer_config.empty()) ReadConfig(spec.tokenizer_config, where);
}

void Tokenizer::ReadConfig(std::string_view text, const std::string& where) {
  const auto parsed = base::ParseJson(text);
  const auto* config = std::get_if<base::Json>(&parsed);
  if (config == nullptr || !config->is_object()) Refuse(where, "tokenizer_config.json is no JSON object");
  const auto read_id = [&](const char* key, std::optional<int32_t>* id) {
    if (const std::string* token = TokenContent(config->Find(key))) *id = TokenId(*token);
  };
  read_id("bos_token", &bos_id_);
  read_id("eos_token", &eos_id_);
  read_id("unk_token", &unk_id_);
  read_id("pad_token", &pad_id_);
  const auto override_affix = [&](const char* key, std::optional<int32_t> id, bool* add, std::vector<int32_t>* affix) {
    const base::Json* flag = config->Find(key);
    if (flag == nullptr || !flag->is_bool()) return;
    *add = flag->as_bool() && id.has_value();
    affix->clear();
    if (*add) affix->push_back(*id);
  };
  override_affix("add_bos_token", bos_id_, &add_bos_, &prefix_);
  override_affix("add_eos_token", eos_id_, &add_eos_, &suffix_);
}

void Tokenizer::InitFromGguf(const GgufVocabulary& v, const std::string& where) {
  CheckCounts(v, where);
  const bool sentencepiece = v.model == "llama";
  if (!sentencepiece && v.model != "gpt2") {
    Refuse(where, "tokenizer.ggml.model \"" + base::Printable(v.model) + "\" is not supported",
           "use a model whose tokenizer is gpt2 or llama");
  }
  const std::string pre = v.pre.empty() ? "default" : v.pre;
  const GgufKind* kind = FindGgufKind(sentencepiece ? "default" : pre);
  if (kind == nullptr) {
    Refuse(where, "tokenizer.ggml.pre \"" + base::Printable(pre) + "\" is not known",
           "use a model with one of: " + GgufKindNames());
  }
  if (sentencepiece && v.scores.empty()) Refuse(where, "tokenizer.ggml.scores is missing");
  if (!sentencepiece && v.merges.empty()) Refuse(where, "tokenizer.ggml.merges is missing");

  const std::vector<PengStr> tokens = Views(v.tokens);
  const std::vector<PengStr> merges = Views(v.merges);
  PengGguf gguf{};
  gguf.tokens = tokens.data();
  gguf.n_tokens = tokens.size();
  gguf.types = v.token_types.empty() ? nullptr : v.token_types.data();
  gguf.merges = merges.data();
  gguf.n_merges = merges.size();
  gguf.scores = v.scores.data();
  gguf.sentencepiece = sentencepiece;
  gguf.add_space_prefix = v.add_space_prefix.value_or(true);
  gguf.ignore_merges = kind->ignore_merges;
  gguf.pre_tokenizer = ToBridge(kind->pre_tokenizer);
  gguf.normalizer = ToBridge(kind->normalizer);
  BridgeBuf error;
  if (peng_tokenizer_from_gguf(&gguf, &handle_->tok, error.out()) != kPengBridgeOk) {
    Refuse(where, "the tokenizer is refused: " + base::Printable(error.view()));
  }

  bos_id_ = CheckId(v.bos_id, v, "bos_token_id", where);
  eos_id_ = CheckId(v.eos_id, v, "eos_token_id", where);
  unk_id_ = CheckId(v.unk_id, v, "unknown_token_id", where);
  pad_id_ = CheckId(v.pad_id, v, "padding_token_id", where);
  add_bos_ = v.add_bos.value_or(sentencepiece || kind->add_bos) && bos_id_.has_value();
  add_eos_ = v.add_eos.value_or(false) && eos_id_.has_value();
  if (add_bos_) prefix_.push_back(*bos_id_);
  if (add_eos_) suffix_.push_back(*eos_id_);
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool add_special) const {
  PengIds raw{};
  BridgeBuf error;
  if (peng_tokenizer_encode(handle_->tok, ToBridge(text), &raw, error.out()) != kPengBridgeOk) {
    throw Error(ErrorKind::kUsage, "prompt", "the tokenizer fails: " + base::Printable(error.view()));
  }
  std::vector<int32_t> ids = TakeIds(&raw);
  if (!add_special) return ids;
  // The BOS comes first in a prefix: of a prompt that brings its own, only the rest is missing.
  const bool has_bos = add_bos_ && !NeedsBos(ids);
  ids.insert(ids.begin() + (has_bos ? 1 : 0), prefix_.begin() + (has_bos ? 1 : 0), prefix_.end());
  ids.insert(ids.end(), suffix_.begin(), suffix_.end());
  return ids;
}

bool Tokenizer::NeedsBos(std::span<const int32_t> ids) const {
  return add_bos_ && (ids.empty() || ids.front() != prefix_.front());
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !IsSpecial(id)) bytes.append(TokenBytes(id));
  }
  std::string_view rest = bytes;
  if (strips_leading_space_ && !rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  std::string text;
  Utf8Stream utf8;
  utf8.Append(rest, &text);
  utf8.Flush(&text);
  return text;
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  return FromBridge(peng_tokenizer_bytes(handle_->tok, static_cast<uint32_t>(id)));
}

std::string Tokenizer::TokenText(int32_t id) const {
  std::string text;
  Utf8Stream utf8;
  utf8.Append(TokenBytes(id), &text);
  utf8.Flush(&text);
  return text;
}

std::string_view Tokenizer::TokenPiece(int32_t id) const {
  return FromBridge(peng_tokenizer_piece(handle_->tok, static_cast<uint32_t>(id)));
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view piece) const {
  const int64_t id = peng_tokenizer_id(handle_->tok, ToBridge(piece));
  return id < 0 ? std::nullopt : std::optional<int32_t>(static_cast<int32_t>(id));
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return peng_tokenizer_is_special(handle_->tok, static_cast<uint32_t>(id));
}

}  // namespace peng::text
