// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace peng::base {

// A list whose copies share its items, which never change: a thousand choices of a request have it once, however long a
// client made it.
template <typename T>
class SharedList {
 public:
  using value_type = T;

  SharedList() = default;
  SharedList(std::vector<T> items) {
    if (!items.empty()) items_ = std::make_shared<const std::vector<T>>(std::move(items));
  }
  SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}

  const std::vector<T>& items() const {
    static const std::vector<T> kNone;
    return items_ ? *items_ : kNone;
  }
  operator const std::vector<T>&() const { return items(); }

  bool empty() const { return items_ == nullptr; }
  size_t size() const { return items().size(); }
  auto begin() const { return items().begin(); }
  auto end() const { return items().end(); }
  const T& operator[](size_t i) const { return items()[i]; }

 private:
  std::shared_ptr<const std::vector<T>> items_;  // null = empty
};

}  // namespace peng::base
