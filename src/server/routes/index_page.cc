// SPDX-License-Identifier: Apache-2.0
// GET /: the chat page
#include <string_view>

#include "server/routes.h"

namespace peng::server {

extern const std::string_view kIndexHtml;  // web/index.html, embedded by the build

void IndexPage(const Call& call) {
  call.reply->Send({.content_type = "text/html; charset=utf-8",
                    .body = std::string(kIndexHtml),
                    .headers = {{"Cache-Control", "no-cache"},
                                {"X-Content-Type-Options", "nosniff"},
                                {"X-Frame-Options", "DENY"},
                                {"Referrer-Policy", "no-referrer"}}});
}

}  // namespace peng::server
