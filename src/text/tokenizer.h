// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace peng::text {

// A tokenizer of the Hugging Face layout.
struct HfTokenizerSpec {
  std::string tokenizer_json;    // content of tokenizer.json
  std::string tokenizer_config;  // content of tokenizer_config.json; may be empty
};

// A vocabulary of a GGUF file: the keys tokenizer.ggml.*.
struct GgufVocabulary {
  std::string model;  // "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;    // kind of pre-tokenizer; empty is "default". Byte-level BPE only
  std::vector<std::string> tokens;
  std::vector<int32_t> token_types;  // as many as tokens, or none: all normal
  std::vector<std::string> merges;   // "left right"; byte-level BPE only
  std::vector<float> scores;         // as many as tokens; SentencePiece only
  std::optional<int64_t> bos_id, eos_id, unk_id, pad_id;
  std::optional<bool> add_bos, add_eos;  // absent: the default of the kind
  std::optional<bool> add_space_prefix;  // SentencePiece only; absent: yes
};

struct TokenizerSpec {
  std::variant<HfTokenizerSpec, GgufVocabulary> source;
  std::string where;  // file name for error messages
};

// Text to token ids and back. Immutable: every method may be called from several threads at once.
class Tokenizer {
 public:
  // Throws base::Error(kModelFile) if the files are damaged, or of a kind that is not supported.
  explicit Tokenizer(const TokenizerSpec& spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Token ids of `text`. Spellings of special tokens in the text become those tokens. `add_special` adds what the
  // model's own files say belongs around a text: BOS (never a second one, see NeedsBos) and EOS.
  // Invalid UTF-8 is read as U+FFFD.
  std::vector<int32_t> Encode(std::string_view text, bool add_special) const;

  // The text of `ids` in valid UTF-8: bytes of the tokens, put together, with U+FFFD for what can never be valid.
  // Ids outside the vocabulary have no text.
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;

  // True if the model wants a BOS before `ids` and they do not begin with one.
  bool NeedsBos(std::span<const int32_t> ids) const;

  // What token `id` adds to a text, as bytes: may be part of a character. Empty outside the vocabulary.
  std::string_view TokenBytes(int32_t id) const;
  // The same as valid UTF-8, with U+FFFD for parts of characters.
  std::string TokenText(int32_t id) const;
  // The vocabulary's own spelling of token `id`, e.g. "Ġthe". Empty outside the vocabulary.
  std::string_view TokenPiece(int32_t id) const;
  // The id of the token whose spelling in the vocabulary is `piece`.
  std::optional<int32_t> TokenId(std::string_view piece) const;
  // Control tokens: hidden from replies unless special tokens are asked for.
  bool IsSpecial(int32_t id) const;

  // One more than the largest id with a text. The model may have more rows (padding).
  int32_t vocab_size() const { return vocab_size_; }
  // Of the token that adds most to a text: a text of B bytes has at least B / max_token_bytes tokens.
  size_t max_token_bytes() const { return max_token_bytes_; }
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  std::optional<int32_t> unk_id() const { return unk_id_; }
  std::optional<int32_t> pad_id() const { return pad_id_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  // True if the first space of a text is no part of it (SentencePiece).
  bool strips_leading_space() const { return strips_leading_space_; }

  // For this folder's own use of the bridge.
  const struct TokenizerHandle& handle() const { return *handle_; }

 private:
  void InitFromHf(const HfTokenizerSpec& spec, const std::string& where);
  void InitFromGguf(const GgufVocabulary& vocabulary, const std::string& where);
  void ReadConfig(std::string_view config, const std::string& where);

  std::unique_ptr<struct TokenizerHandle> handle_;
  int32_t vocab_size_ = 0;
  size_t max_token_bytes_ = 0;
  std::optional<int32_t> bos_id_, eos_id_, unk_id_, pad_id_;
  bool add_bos_ = false;
  bool add_eos_ = false;
  bool strips_leading_space_ = false;
  std::vector<int32_t> prefix_;  // what the files put before and after a text, BOS and EOS included
  std::vector<int32_t> suffix_;
};

}  // namespace peng::text
