# SPDX-License-Identifier: Apache-2.0
# peng_module(NAME SRCS ... [DEPS peng_...] [LIBS third-party ...] [TESTS ..._test.cc] [TEST_LIBS ...])
#
# One static library per folder: peng_NAME, and (with PENG_TESTS) one test binary per folder: peng_NAME_test.
# DEPS are peng modules and are public: a header of this folder may include theirs. LIBS are third-party libraries
# and are private, since no header of peng includes one (base/log.h with fmt is the only exception).
function(peng_module NAME)
  cmake_parse_arguments(M "" "" "SRCS;DEPS;LIBS;TESTS;TEST_LIBS" ${ARGN})
  add_library(peng_${NAME} STATIC ${M_SRCS})
  target_link_libraries(peng_${NAME} PUBLIC peng_flags ${M_DEPS} PRIVATE ${M_LIBS})
  if(PENG_TESTS AND M_TESTS)
    peng_test(peng_${NAME}_test SRCS ${M_TESTS} LIBS peng_${NAME} ${M_TEST_LIBS})
  endif()
endfunction()

# peng_test(NAME SRCS ... LIBS ...): a GoogleTest binary, run by ctest as one test.
function(peng_test NAME)
  cmake_parse_arguments(T "" "" "SRCS;LIBS" ${ARGN})
  add_executable(${NAME} ${T_SRCS})
  target_link_libraries(${NAME} PRIVATE ${T_LIBS} peng_flags GTest::gtest GTest::gtest_main)
  target_compile_definitions(${NAME} PRIVATE PENG_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME})
endfunction()
