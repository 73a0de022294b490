// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.h"
#include "text/tokenizer.h"

namespace peng::api {

// The checkpoint's tokenizer in the terms of the text folder, which knows no file formats.
text::TokenizerSpec MakeTokenizerSpec(formats::TokenizerData data);

}  // namespace peng::api
