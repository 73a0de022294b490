# SPDX-License-Identifier: Apache-2.0
# peng_embed(FILE SYMBOL OUT): writes a C++ source with the bytes of FILE as
#   extern const std::string_view SYMBOL;      (SYMBOL with its namespace: peng::server::kIndexHtml)
# and stores the path of that source in the variable OUT. The source is written anew when FILE changes.
set(PENG_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(peng_embed FILE SYMBOL OUT)
  get_filename_component(file ${FILE} ABSOLUTE)
  string(REGEX REPLACE "[^A-Za-z0-9]+" "_" stem ${SYMBOL})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embed_${stem}.cc)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DPENG_EMBED_FILE=${file} -DPENG_EMBED_SYMBOL=${SYMBOL} -DPENG_EMBED_OUT=${source}
            -P ${PENG_EMBED_SCRIPT}
    DEPENDS ${file} ${PENG_EMBED_SCRIPT}
    COMMENT "Embedding ${FILE}")
  set(${OUT} ${source} PARENT_SCOPE)
endfunction()

if(PENG_EMBED_OUT)
  file(READ ${PENG_EMBED_FILE} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  # Byte by byte, not as one string literal, which has a length limit.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX MATCH "^(.*)::([^:]*)$" matched ${PENG_EMBED_SYMBOL})
  file(WRITE ${PENG_EMBED_OUT}
"// Generated from ${PENG_EMBED_FILE}
#include <string_view>
namespace ${CMAKE_MATCH_1} {
static constexpr char kBytes[] = {
${bytes}'\\0'};
extern const std::string_view ${CMAKE_MATCH_2};
const std::string_view ${CMAKE_MATCH_2}(kBytes, ${size});
}  // namespace ${CMAKE_MATCH_1}
")
endif()
