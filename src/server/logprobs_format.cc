// SPDX-License-Identifier: Apache-2.0
#include "server/logprobs_format.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace peng::server {
namespace {

using base::Json;

constexpr double kLowest = -9999.0;  // JSON has no infinity

Json Logprob(float value) {
  if (!(value > kLowest)) return Json(kLowest);
  return Json(static_cast<double>(value));
}

std::string TokenName(int32_t id, const LogprobsStyle& style) {
  return style.as_ids ? "token_id:" + std::to_string(id) : style.tokenizer.TokenText(id);
}

Json Bytes(const std::string& bytes) {
  Json::Array array;
  for (const char c : bytes) array.emplace_back(static_cast<int>(static_cast<unsigned char>(c)));
  return array;
}

Json::Object ChatToken(const api::TokenLogprob& token, const LogprobsStyle& style) {
  return {{"token", TokenName(token.id, style)}, {"logprob", Logprob(token.logprob)}, {"bytes", Bytes(token.bytes)}};
}

int64_t CodePoints(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

Json ChatLogprobs(const std::vector<api::PositionLogprobs>& positions, const LogprobsStyle& style) {
  Json::Array content;
  for (const api::PositionLogprobs& position : positions) {
    Json::Object entry = ChatToken(position.sampled, style);
    Json::Array top;
    for (const api::TokenLogprob& token : position.top) top.emplace_back(ChatToken(token, style));
    entry.emplace_back("top_logprobs", std::move(top));
    content.emplace_back(std::move(entry));
  }
  return Json::Object{{"content", Json(std::move(content))}};
}

Json CompletionLogprobs(const std::vector<std::optional<api::PositionLogprobs>>& positions,
                        const std::vector<int32_t>& ids, int64_t* offset, const LogprobsStyle& style) {
  Json::Array offsets, logprobs, tokens, tops;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string name = TokenName(ids[i], style);
    offsets.emplace_back(*offset);
    *offset += CodePoints(name);
    tokens.emplace_back(name);
    if (i >= positions.size() || !positions[i]) {
      logprobs.emplace_back(nullptr);
      tops.emplace_back(nullptr);
      continue;
    }
    logprobs.push_back(Logprob(positions[i]->sampled.logprob));
    Json top;
    top.Set(name, Logprob(positions[i]->sampled.logprob));
    for (const api::TokenLogprob& token : positions[i]->top)
      top.Set(TokenName(token.id, style), Logprob(token.logprob));
    tops.push_back(std::move(top));
  }
  return Json::Object{{"text_offset", Json(std::move(offsets))},
                      {"token_logprobs", Json(std::move(logprobs))},
                      {"tokens", Json(std::move(tokens))},
                      {"top_logprobs", Json(std::move(tops))}};
}

Json PromptLogprobs(const std::vector<std::optional<api::PositionLogprobs>>& positions, const LogprobsStyle& style) {
  Json::Array array;
  for (const auto& position : positions) {
    if (!position) {
      array.emplace_back(nullptr);
      continue;
    }
    Json tokens;
    const auto add = [&](const api::TokenLogprob& token) {
      tokens.Set(std::to_string(token.id), Json(Json::Object{{"logprob", Logprob(token.logprob)},
                                                             {"rank", token.rank},
                                                             {"decoded_token", style.tokenizer.TokenText(token.id)}}));
    };
    add(position->sampled);
    for (const api::TokenLogprob& token : position->top) add(token);
    array.push_back(std::move(tokens));
  }
  return array;
}

Json TokenIdArray(const std::vector<int32_t>& ids) {
  Json::Array array;
  array.reserve(ids.size());
  for (const int32_t id : ids) array.emplace_back(id);
  return array;
}

Json StopReason(const api::Delta& delta) {
  if (const auto* text = std::get_if<std::string>(&delta.stop_reason)) return Json(*text);
  if (const auto* id = std::get_if<int32_t>(&delta.stop_reason)) return Json(*id);
  return {};
}

}  // namespace peng::server
