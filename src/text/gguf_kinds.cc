// SPDX-License-Identifier: Apache-2.0
#include "text/gguf_kinds.h"

#include <utility>

namespace peng::text {
namespace {

// The pre-tokenizers of the models' own tokenizer.json, step by step.
// clang-format off
constexpr std::string_view kGpt2 =
    R"json({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})json";

constexpr std::string_view kSmolLm =
    R"json({"type":"Sequence","pretokenizers":[)json"
    R"json({"type":"Digits","individual_digits":true},)json"
    R"json({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]})json";

constexpr std::string_view kDeepSeekLlm =
    R"json({"type":"Sequence","pretokenizers":[)json"
    R"json({"type":"Split","pattern":{"Regex":"[\r\n]"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Split","pattern":{"Regex":"\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ)json"
    R"json(Ⴀ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿ)json"
    R"json(ⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"},"behavior":"Isolated",)json"
    R"json("invert":false},)json"
    R"json({"type":"Split","pattern":{"Regex":"\\s?[!-/:-~！-／：-～‘-‟　-。]+"},"behavior":"Isolated","invert":)json"
    R"json(false},)json"
    R"json({"type":"Split","pattern":{"Regex":"\\s+$"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Split","pattern":{"Regex":"[一-龥ࠀ-一가-퟿]+"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Digits","individual_digits":true},)json"
    R"json({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})json";

constexpr std::string_view kDeepSeekCoder =
    R"json({"type":"Sequence","pretokenizers":[)json"
    R"json({"type":"Split","pattern":{"Regex":"[\r\n]"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Split","pattern":{"Regex":"\\s?\\p{L}+"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Split","pattern":{"Regex":"\\s?\\p{P}+"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Split","pattern":{"Regex":"[一-龥ࠀ-一가-퟿]+"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Digits","individual_digits":true},)json"
    R"json({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})json";

constexpr std::string_view kDeepSeekV3 =
    R"json({"type":"Sequence","pretokenizers":[)json"
    R"json({"type":"Split","pattern":{"Regex":"\\p{N}{1,3}"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Split","pattern":{"Regex":"[一-龥぀-ゟ゠-ヿ]+"},"behavior":"Isolated","invert":false},)json"
    R"json({"type":"Split","pattern":{"Regex":"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\)json"
    R"json(n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},"b)json"
    R"json(ehavior":"Isolated","invert":false},)json"
    R"json({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})json";

constexpr std::string_view kQwen2 =
    R"json({"type":"Sequence","pretokenizers":[)json"
    R"json({"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|)json"
    R"json(\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","i)json"
    R"json(nvert":false},)json"
    R"json({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}]})json";

constexpr std::string_view kLlama3 =
    R"json({"type":"Sequence","pretokenizers":[)json"
    R"json({"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|)json"
    R"json(\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolate)json"
    R"json(d","invert":false},)json"
    R"json({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})json";

constexpr std::string_view kNfc = R"json({"type":"NFC"})json";

constexpr std::pair<std::string_view, GgufKind> kKinds[] = {
    {"default", {kGpt2, "", false, false}},
    {"gpt-2", {kGpt2, "", false, false}},
    {"smollm", {kSmolLm, "", false, false}},
    {"llama-bpe", {kLlama3, "", true, true}},
    {"llama3", {kLlama3, "", true, true}},
    {"llama-v3", {kLlama3, "", true, true}},
    {"deepseek-llm", {kDeepSeekLlm, "", false, false}},
    {"deepseek-coder", {kDeepSeekCoder, "", false, false}},
    {"deepseek-v3", {kDeepSeekV3, "", false, false}},
    {"deepseek-r1-qwen", {kQwen2, kNfc, false, false}},
    {"qwen2", {kQwen2, kNfc, false, false}},
};
// clang-format on

}  // namespace

const GgufKind* FindGgufKind(std::string_view pre) {
  for (const auto& [name, kind] : kKinds) {
    if (name == pre) return &kind;
  }
  return nullptr;
}

std::string GgufKindNames() {
  std::string names;
  for (const auto& [name, kind] : kKinds) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace peng::text
