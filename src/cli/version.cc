// SPDX-License-Identifier: Apache-2.0
#include "api/version.h"

#include <cstdio>

#include "base/cpu_features.h"
#include "cli/arguments.h"
#include "cli/commands.h"

namespace peng::cli {

int Version(int argc, char** argv) {
  if (!ParseArguments({"version", "Prints the version and the instruction sets that this machine has."}, argc, argv)) {
    return 0;
  }
  const base::CpuFeatures cpu = base::DetectCpu();
  std::string tiers;
  for (const base::Isa isa : cpu.tiers) tiers += " " + std::string(base::IsaName(isa));
  std::printf("peng %s\nprocessor: %s\ninstruction sets:%s\n", api::Version().c_str(), cpu.model.c_str(),
              tiers.c_str());
  return 0;
}

}  // namespace peng::cli
