/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENG_PENG_C_H_
#define PENG_PENG_C_H_

/* peng as a C library. No function throws or aborts on bad input. Strings are UTF-8 and end in NUL. Pointers that a
 * function takes stay the caller's and are not kept; pointers that it gives are freed with the function named there. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a declaration below changes in a way that old callers notice. New members of structs are added at the end
 * and are covered by struct_size instead. */
#define PENG_C_ABI 1

int32_t peng_abi(void);         /* PENG_C_ABI of the library */
const char* peng_version(void); /* static */

/* Results: the exit codes of the command line. */
enum { PENG_OK = 0, PENG_RUNTIME = 1, PENG_USAGE = 2, PENG_MODEL_FILE = 3, PENG_DEVICE = 4 };

typedef struct peng_model peng_model;

typedef struct peng_load_options {
  size_t struct_size;     /* sizeof(peng_load_options) */
  const char* model;      /* folder, .gguf, .safetensors, or the name of a model in the cache */
  const char* dtype;      /* NULL = "auto" */
  int32_t threads;        /* 0 = all that the process may use */
  int32_t max_model_len;  /* 0 = what the model was made for */
  int64_t kv_cache_bytes; /* 0 = sized to the free memory */
} peng_load_options;

/* Loads a model into *model (peng_free). On failure *error, if error is not NULL, is one line (peng_string_free). */
int32_t peng_load(const peng_load_options* options, peng_model** model, char** error);
void peng_free(peng_model* model); /* NULL is fine; no call may be under way */
void peng_string_free(char* string);

typedef struct peng_generate_options {
  size_t struct_size; /* sizeof(peng_generate_options) */
  const char* prompt; /* text; with chat = 1 the user's message for the model's chat template */
  const char* system; /* with chat = 1: the system message, or NULL */
  int32_t chat;
  int32_t max_tokens; /* 0 = up to the end of the context */
  double temperature; /* negative = the model's own default; 0 = greedy */
  double top_p;       /* negative = default */
  int32_t top_k;      /* negative = default */
  int64_t seed;       /* -1 = random */
  const char* const* stop;
  size_t num_stop; /* at most 4 */
} peng_generate_options;

/* Fills in struct_size and the defaults. */
void peng_generate_options_init(peng_generate_options* options);

/* A piece of text, `size` bytes, not ended by NUL; valid during the call. 0 goes on, anything else ends the reply. */
typedef int32_t (*peng_on_text)(void* user, const char* text, size_t size);

/* Generates and waits for the end. May be called from several threads at once. */
int32_t peng_generate(peng_model* model, const peng_generate_options* options, peng_on_text on_text, void* user,
                      char** error);

#ifdef __cplusplus
}
#endif

#endif /* PENG_PENG_C_H_ */
