// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

#include <utility>

namespace peng::backend {

void Backend::PrepareAll(std::span<PrepareJob> jobs, const std::function<void(size_t)>& done) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    *jobs[i].slot = Prepare(std::move(jobs[i].weight), jobs[i].use, jobs[i].partition);
    if (done) done(i);
  }
}

}  // namespace peng::backend
