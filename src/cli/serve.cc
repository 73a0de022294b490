// SPDX-License-Identifier: Apache-2.0
#include "server/serve.h"

#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"

namespace peng::cli {

int Serve(int argc, char** argv) {
  auto options = ParseArguments({"serve", "Serves a model over the OpenAI API.", {}}, argc, argv);
  return options ? server::RunServer(std::move(*options)) : 0;
}

}  // namespace peng::cli
