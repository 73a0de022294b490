// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peng::text {

// Stop strings and what the search for them needs. Many texts may share them.
struct StopStrings {
  explicit StopStrings(std::vector<std::string> s);

  std::vector<std::string> strings;
  std::vector<std::vector<uint32_t>> borders;  // [string][n]: longest proper border of its first n bytes
};

// Looks for stop strings in a text that arrives in pieces. Text that may be the beginning of a stop string is held back
// until it is settled; the joined output does not depend on the cuts. The stop that is complete first ends the text; of
// several that end at the same byte, the longest.
class StopChecker {
 public:
  struct Output {
    std::string text;            // settled text, without the stop string unless include_stop
    std::optional<size_t> stop;  // index of the stop string found
  };

  // Empty stop strings never match. `include_stop` keeps the stop string at the end of the text.
  StopChecker(std::shared_ptr<const StopStrings> stops, bool include_stop);
  StopChecker(std::vector<std::string> stops, bool include_stop)
      : StopChecker(std::make_shared<const StopStrings>(std::move(stops)), include_stop) {}

  // Adds `piece`. After a stop was found, or Finish, everything further is dropped.
  Output Push(std::string_view piece);
  // Ends the text: returns what is held back.
  std::string Finish();
  // Ends the text with stop string `index`, seen as a token rather than in the text.
  Output FinishWith(size_t index);

  const std::vector<std::string>& stops() const { return stops_->strings; }
  bool stopped() const { return done_; }

 private:
  void Advance(size_t stop, char byte);

  std::shared_ptr<const StopStrings> stops_;
  std::vector<size_t> matched_;  // [stop]: bytes of it that the text ends with
  std::string held_;
  bool include_stop_;
  bool done_ = false;
};

}  // namespace peng::text
