// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace peng::base {

// What an Error ends, as the process exit code of the command line.
enum class ErrorKind : int {
  kRuntime = 1,    // run-time failure: disk, network, memory
  kUsage = 2,      // bad flag, environment variable, config file or request, or a file that one of them names
  kModelFile = 3,  // a model that is refused, or is not there
  kDevice = 4,     // a device that cannot be used
};

// Ends a load, a request or the process. Caught where that ends (the HTTP handler, the engine step, main, the C API),
// and by who goes on without what failed and says so: ARCHITECTURE.md names them. what() is one line: "WHERE: WHAT;
// ACTION", with the parts that are empty left out.
class Error : public std::runtime_error {
 public:
  // `where` names the file, flag or field; `what` the fault with the values found; `action` what to do about it.
  Error(ErrorKind kind, std::string_view where, std::string_view what, std::string_view action = {});

  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// `text` with control bytes and invalid UTF-8 replaced and cut to `max_bytes`, fit for a one-line message.
std::string Printable(std::string_view text, size_t max_bytes = 200);

}  // namespace peng::base
