// SPDX-License-Identifier: Apache-2.0
#include "text/stop_checker.h"

#include <algorithm>
#include <utility>

namespace peng::text {
namespace {

std::vector<uint32_t> Borders(std::string_view text) {
  std::vector<uint32_t> borders(text.size() + 1, 0);
  uint32_t k = 0;
  for (size_t n = 2; n <= text.size(); ++n) {
    while (k > 0 && text[n - 1] != text[k]) k = borders[k];
    if (text[n - 1] == text[k]) ++k;
    borders[n] = k;
  }
  return borders;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> s) : strings(std::move(s)) {
  for (const std::string& stop : strings) borders.push_back(Borders(stop));
}

StopChecker::StopChecker(std::shared_ptr<const StopStrings> stops, bool include_stop)
    : stops_(std::move(stops)), matched_(stops_->strings.size(), 0), include_stop_(include_stop) {}

void StopChecker::Advance(size_t stop, char byte) {
  const std::string& text = stops_->strings[stop];
  size_t& k = matched_[stop];
  while (k > 0 && text[k] != byte) k = stops_->borders[stop][k];
  if (text[k] == byte) ++k;
}

StopChecker::Output StopChecker::Push(std::string_view piece) {
  Output output;
  if (done_) return output;
  const std::vector<std::string>& stops = stops_->strings;
  for (const char byte : piece) {
    held_.push_back(byte);
    for (size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty()) continue;
      Advance(i, byte);
      if (matched_[i] == stops[i].size() && (!output.stop || stops[i].size() > stops[*output.stop].size())) {
        output.stop = i;
      }
    }
    if (output.stop) {
      done_ = true;
      if (!include_stop_) held_.resize(held_.size() - stops[*output.stop].size());
      output.text = std::exchange(held_, {});
      return output;
    }
  }
  const size_t keep = matched_.empty() ? 0 : *std::max_element(matched_.begin(), matched_.end());
  output.text.assign(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return output;
}

std::string StopChecker::Finish() {
  done_ = true;
  return std::exchange(held_, {});
}

StopChecker::Output StopChecker::FinishWith(size_t index) {
  Output output{Finish(), index};
  if (include_stop_) output.text += stops_->strings[index];
  return output;
}

}  // namespace peng::text
