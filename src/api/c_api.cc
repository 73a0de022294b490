// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "peng/peng.h"
#include "peng/peng_c.h"

// Nothing may throw from here: every entry ends in Guard.

struct peng_model {
  peng::Model model;
};

namespace {

char* CopyString(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

int32_t Fail(int32_t code, const std::string& message, char** error) {
  if (error != nullptr) *error = CopyString(message);
  return code;
}

template <typename F>
int32_t Guard(char** error, F&& work) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    work();
    return PENG_OK;
  } catch (const peng::PengError& e) {
    return Fail(e.code(), e.what(), error);
  } catch (const std::bad_alloc&) {
    return Fail(PENG_RUNTIME, "out of memory", error);
  } catch (const std::exception& e) {
    return Fail(PENG_RUNTIME, e.what(), error);
  } catch (...) {
    return Fail(PENG_RUNTIME, "unknown failure", error);
  }
}

// The caller's struct, which may be of an older library with fewer members: the rest keeps its defaults.
template <typename Options>
Options Read(const Options* given, Options defaults, const char* name) {
  if (given == nullptr || given->struct_size < sizeof(size_t)) {
    throw peng::PengError(PENG_USAGE, std::string(name) + ": struct_size is not set");
  }
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(Options)));
  return defaults;
}

const char* Required(const char* text, const char* name) {
  if (text == nullptr || *text == '\0') throw peng::PengError(PENG_USAGE, std::string(name) + ": is missing");
  return text;
}

peng::GenerateOptions Convert(const peng_generate_options& o) {
  peng::GenerateOptions options;
  options.max_tokens = o.max_tokens;
  if (o.temperature >= 0) options.temperature = o.temperature;
  if (o.top_p >= 0) options.top_p = o.top_p;
  if (o.top_k >= 0) options.top_k = o.top_k;
  if (o.seed != -1) options.seed = o.seed;
  if (o.num_stop > 0 && o.stop == nullptr) throw peng::PengError(PENG_USAGE, "stop: is NULL");
  for (size_t i = 0; i < o.num_stop; ++i) options.stop.emplace_back(Required(o.stop[i], "stop"));
  return options;
}

}  // namespace

extern "C" {

int32_t peng_abi(void) { return PENG_C_ABI; }

const char* peng_version(void) { return peng::Version().data(); }

int32_t peng_load(const peng_load_options* options, peng_model** model, char** error) {
  return Guard(error, [&] {
    if (model == nullptr) throw peng::PengError(PENG_USAGE, "model: is NULL");
    *model = nullptr;
    const peng_load_options o = Read(options, peng_load_options{}, "peng_load_options");
    peng::LoadOptions load;
    load.model = Required(o.model, "model");
    if (o.dtype != nullptr) load.dtype = o.dtype;
    load.threads = o.threads;
    load.max_model_len = o.max_model_len;
    load.kv_cache_bytes = o.kv_cache_bytes;
    *model = new peng_model{peng::Model(load)};
  });
}

void peng_free(peng_model* model) { delete model; }

void peng_string_free(char* string) { std::free(string); }

void peng_generate_options_init(peng_generate_options* options) {
  if (options == nullptr) return;
  *options = peng_generate_options{};
  options->struct_size = sizeof(*options);
  options->temperature = -1;
  options->top_p = -1;
  options->top_k = -1;
  options->seed = -1;
}

int32_t peng_generate(peng_model* model, const peng_generate_options* options, peng_on_text on_text, void* user,
                      char** error) {
  return Guard(error, [&] {
    if (model == nullptr) throw peng::PengError(PENG_USAGE, "model: is NULL");
    peng_generate_options defaults;
    peng_generate_options_init(&defaults);
    const peng_generate_options o = Read(options, defaults, "peng_generate_options");
    const peng::OnText forward = [&](std::string_view text) {
      return on_text == nullptr || on_text(user, text.data(), text.size()) == 0;
    };
    if (o.chat == 0) {
      model->model.Complete(Required(o.prompt, "prompt"), Convert(o), forward);
      return;
    }
    std::vector<peng::Message> messages;
    if (o.system != nullptr) messages.push_back({"system", o.system});
    messages.push_back({"user", Required(o.prompt, "prompt")});
    model->model.Chat(messages, Convert(o), forward);
  });
}

}  // extern "C"
