// SPDX-License-Identifier: Apache-2.0
// Two inputs in one, told apart by the first byte: a prompt for a small byte-level tokenizer, whose decode must be the
// prompt; or a whole tokenizer.json, which is refused or works.
#include <memory>
#include <string>
#include <vector>

#include "fuzz.h"
#include "text/detokenizer.h"
#include "text/stop_checker.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace peng {
namespace {

std::string Utf8(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// One token per byte in GPT-2's spelling, a few merges, one special token.
std::shared_ptr<const text::Tokenizer> ByteTokenizer() {
  text::GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "llama-bpe";
  uint32_t shifted = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    v.tokens.push_back(Utf8(printable ? b : shifted++));
  }
  for (const char* pair : {"a b", "Ġ Ġ", "ĠĠ ĠĠ", "ab ab"}) {
    const std::string merge = pair;
    v.merges.push_back(merge);
    v.tokens.push_back(merge.substr(0, merge.find(' ')) + merge.substr(merge.find(' ') + 1));
  }
  v.token_types.assign(v.tokens.size(), 1);
  v.tokens.push_back("<|eot|>");
  v.token_types.push_back(3);
  return std::make_shared<const text::Tokenizer>(text::TokenizerSpec{std::move(v), "fuzz"});
}

void CheckRoundTrip(const std::shared_ptr<const text::Tokenizer>& tokenizer, std::string_view prompt) {
  std::string expected;
  text::Utf8Stream utf8;
  utf8.Append(prompt, &expected);
  utf8.Flush(&expected);
  const std::vector<int32_t> ids = tokenizer->Encode(prompt, true);
  fuzz::Check(tokenizer->Decode(ids, false) == expected);
  text::Detokenizer detokenizer(tokenizer, false);
  text::StopChecker stops({"\n\n", "abab", "<|eot|>"}, false);
  std::string joined, checked;
  for (const int32_t id : ids) {
    const std::string piece = detokenizer.Push(id);
    joined += piece;
    checked += stops.Push(piece).text;
  }
  joined += detokenizer.Flush();
  fuzz::Check(joined == expected);
  fuzz::Check(expected.compare(0, checked.size(), checked) == 0);
}

}  // namespace
}  // namespace peng

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peng;
  static const auto tokenizer = ByteTokenizer();
  const std::string_view input = fuzz::Text(data, size);
  if (!input.starts_with('{')) {
    CheckRoundTrip(tokenizer, input);
    return 0;
  }
  fuzz::ExpectRefusalOnly([&] {
    const text::Tokenizer other(text::TokenizerSpec{text::HfTokenizerSpec{std::string(input), ""}, "tokenizer.json"});
    other.Decode(other.Encode("Hello, 12 wor\xC3\xA9lds <s>  \n", true), true);
  });
  return 0;
}
