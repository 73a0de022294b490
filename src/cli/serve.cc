// SPDX-License-Identifier: Apache-2.0
#include "server/serve.h"

#include <csignal>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"

namespace peng::cli {

int Serve(int argc, char** argv) {
  // Every write looks at its result, and the first lines of the log come before the server.
  ::signal(SIGPIPE, SIG_IGN);
  auto options =
      ParseArguments({"serve", "Serves a model over the OpenAI API.", {}, base::OptionUse::kServing}, argc, argv);
  return options ? server::RunServer(std::move(*options)) : 0;
}

}  // namespace peng::cli
