// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <locale.h>

namespace peng::hub {

// For as long as it lives, this thread's file names are UTF-8, whatever the process's locale: libarchive converts names
// to the locale and fails on those that it cannot hold.
class Utf8Locale {
 public:
  Utf8Locale() : utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (utf8_ != nullptr) before_ = ::uselocale(utf8_);
  }
  ~Utf8Locale() {
    if (utf8_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(utf8_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  locale_t utf8_;
  locale_t before_ = nullptr;
};

}  // namespace peng::hub
