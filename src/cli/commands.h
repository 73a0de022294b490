// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace peng::cli {

// Each takes the words after its name and returns the process's exit code; base::Error says what went wrong.
int Serve(int argc, char** argv);
int Chat(int argc, char** argv);
int Complete(int argc, char** argv);
int Inspect(int argc, char** argv);
int Perplexity(int argc, char** argv);
int Bench(int argc, char** argv);
int Pull(int argc, char** argv);
int Version(int argc, char** argv);

}  // namespace peng::cli
