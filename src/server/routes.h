// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "server/http.h"
#include "server/service.h"

namespace peng::server {

// What a handler works on. `tail` is the part of the path that a route's '*' stands for.
struct Call {
  Service& service;
  const HttpRequest& request;
  std::shared_ptr<HttpReply> reply;
  std::string_view tail;
  std::shared_ptr<RequestScope> scope;
};

// kOpen: also without a key. kAdmin: only with --admin-key.
enum class Access : uint8_t { kKey, kOpen, kAdmin };

// Probes are in no metric and no log, the page is in no log: they tell nothing about use.
enum class Traffic : uint8_t { kRequest, kPage, kProbe };

// One endpoint and method. A path that ends in '*' takes every path with that beginning.
struct Route {
  std::string_view method;
  std::string_view path;
  void (*handler)(const Call& call);
  Access access = Access::kKey;
  Traffic traffic = Traffic::kRequest;
};

std::span<const Route> AllRoutes();

// Routes, one file each in routes/.
void ChatCompletions(const Call& call);
void Completions(const Call& call);
void ListModels(const Call& call);
void ShowModel(const Call& call);
void Health(const Call& call);
void Ping(const Call& call);
void Version(const Call& call);
void Tokenize(const Call& call);
void Detokenize(const Call& call);
void ShowMetrics(const Call& call);
void IndexPage(const Call& call);
void ResetPrefixCache(const Call& call);
void ShowLogLevel(const Call& call);
void ChangeLogLevel(const Call& call);
void ServerInfo(const Call& call);

}  // namespace peng::server
