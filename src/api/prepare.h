// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "api/generation.h"
#include "api/llm.h"

namespace peng::api {

// Caps of one request. Each is checked before any work is queued.
inline constexpr int64_t kMaxChoices = 16384;
inline constexpr int64_t kMaxPromptCopies = int64_t{1} << 24;  // tokens: every choice keeps the prompt
inline constexpr size_t kTextBytesPerToken = 16;               // of the context: a text may have so many bytes,
inline constexpr size_t kMinTextBytes = 1 << 20;               // or these if they are more
inline constexpr size_t kMaxStopStrings = 4;
inline constexpr size_t kMaxStopBytes = 4096;
inline constexpr size_t kMaxBadWords = 128;
inline constexpr size_t kMaxBadWordBytes = 4096;

// Checks the sampling defaults of a generation_config.json (object or null), which is `where`. Throws base::Error
// (kModelFile) that names the field and what goes on without the file.
void CheckGenerationConfig(const base::Json& config, const std::string& where);

// Fills what is unset from `generation_config` (object or null), checks every value and puts the lists of ids in
// ascending order, each id once. nullopt if all is well.
std::optional<Refusal> ResolveParams(const LlmParts& parts, size_t prompt_tokens, GenerationParams* params);

// The token sequences of params.bad_words, each with and without a space before it.
std::variant<std::vector<std::vector<int32_t>>, Refusal> EncodeBadWords(const text::Tokenizer& tokenizer,
                                                                        const std::vector<std::string>& words);

// Refuses a request whose limits leave no token to choose from the start. `params` are resolved, `bad_words` are those
// of EncodeBadWords.
std::optional<Refusal> CheckAllowedTokens(const LlmParts& parts, const GenerationParams& params,
                                          const std::vector<std::vector<int32_t>>& bad_words);

// The prompt as ids; refuses empty ones, ids out of range, and conversations that the template refuses.
std::variant<std::vector<int32_t>, Refusal> EncodePrompt(const LlmParts& parts, const Prompt& prompt,
                                                         std::optional<bool> add_special_tokens);

}  // namespace peng::api
