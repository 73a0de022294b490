# SPDX-License-Identifier: Apache-2.0
# Compile flags of every peng target.
#
# -ffp-contract=off: the reference and the portable kernels give the same bits on every compiler and architecture.
# Kernel folders add their own -m flags on top; nothing outside them may assume more than the baseline ISA.
add_library(peng_flags INTERFACE)
target_compile_options(peng_flags INTERFACE -Wall -Wextra -Werror -ffp-contract=off)
# GCC 12 sees an overlapping copy in every "literal" + std::string (its bug 105651).
target_compile_options(peng_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# GCC's warnings are the ones that count; clang builds the fuzz targets, and warns about GCC's own library.
target_compile_options(peng_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-error>)
target_include_directories(peng_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)

find_package(Threads REQUIRED)
target_link_libraries(peng_flags INTERFACE Threads::Threads)

if(PENG_SANITIZE)
  target_compile_options(peng_flags INTERFACE -fsanitize=${PENG_SANITIZE} -fno-omit-frame-pointer -g1
                         -fno-sanitize-recover=all)
  target_link_options(peng_flags INTERFACE -fsanitize=${PENG_SANITIZE})
  # GCC 12 loses track of initialization in instrumented code: it warns inside its own <regex>.
  target_compile_options(peng_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(PENG_SANITIZE MATCHES "thread")
    # GCC warns that ThreadSanitizer does not see fences. Asio's come on top of its mutexes, which it does see.
    target_compile_options(peng_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
