/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface as a C program sees it; public_test.cc calls this. */
#include <string.h>

#include "peng/peng_c.h"

static int32_t Collect(void* user, const char* text, size_t size) {
  strncat((char*)user, text, size);
  return 0;
}

int32_t GenerateFromC(const char* model_path, const char* prompt, char* text, char** error) {
  peng_load_options load;
  memset(&load, 0, sizeof(load));
  load.struct_size = sizeof(load);
  load.model = model_path;
  load.dtype = "float32";
  load.kv_cache_bytes = 64 << 20;
  peng_model* model = NULL;
  int32_t code = peng_load(&load, &model, error);
  if (code != PENG_OK) return code;
  peng_generate_options options;
  peng_generate_options_init(&options);
  options.prompt = prompt;
  options.max_tokens = 8;
  options.temperature = 0;
  code = peng_generate(model, &options, Collect, text, error);
  peng_free(model);
  return code;
}
