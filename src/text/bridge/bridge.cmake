# SPDX-License-Identifier: Apache-2.0
# peng_text_bridge: the Rust static library in this folder, built by cargo.
#
# PENG_CARGO names the cargo to use; by default the first one that is new enough, of PATH and then of the system.
# PENG_RUST_TARGET is the target of a cross build, e.g. aarch64-unknown-linux-gnu; the C compiler of the CMake build links.
set(PENG_RUST_TARGET "" CACHE STRING "Rust target triple of a cross build; empty for the machine's own")
set(peng_cargo_minimum 1.87)

function(peng_find_cargo)
  if(PENG_CARGO)
    return()
  endif()
  find_program(peng_path_cargo cargo)
  set(seen)
  foreach(candidate ${peng_path_cargo} /usr/bin/cargo)
    if(NOT EXISTS ${candidate})
      continue()
    endif()
    execute_process(COMMAND ${candidate} --version OUTPUT_VARIABLE version ERROR_QUIET)
    if(version MATCHES "cargo ([0-9]+\\.[0-9]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL peng_cargo_minimum)
      set(PENG_CARGO ${candidate} CACHE FILEPATH "cargo for the text bridge")
      return()
    endif()
    string(STRIP "${version}" version)
    list(APPEND seen "${candidate} (${version})")
  endforeach()
  message(FATAL_ERROR "cargo ${peng_cargo_minimum} or newer is needed, found: ${seen}. "
                      "Install it (Debian 12: apt install cargo-web rustc-web; others: rustup) or set PENG_CARGO.")
endfunction()
peng_find_cargo()

set(bridge_dir ${CMAKE_CURRENT_LIST_DIR})
set(bridge_target_dir ${CMAKE_BINARY_DIR}/cargo)
set(bridge_env CARGO_TARGET_DIR=${bridge_target_dir})
# A cargo of the system next to a rustup one on PATH must not pick up the other's compiler.
get_filename_component(cargo_bin ${PENG_CARGO} DIRECTORY)
if(EXISTS ${cargo_bin}/rustc)
  list(APPEND bridge_env RUSTC=${cargo_bin}/rustc)
endif()
set(bridge_args build --release --locked --manifest-path ${bridge_dir}/Cargo.toml)
if(PENG_RUST_TARGET)
  list(APPEND bridge_args --target ${PENG_RUST_TARGET})
  string(TOUPPER ${PENG_RUST_TARGET} triple)
  string(REPLACE "-" "_" triple ${triple})
  list(APPEND bridge_env CARGO_TARGET_${triple}_LINKER=${CMAKE_C_COMPILER})
endif()
set(bridge_lib ${bridge_target_dir}/${PENG_RUST_TARGET}/release/libpeng_text_bridge.a)
cmake_path(NORMAL_PATH bridge_lib)

file(GLOB bridge_sources CONFIGURE_DEPENDS ${bridge_dir}/src/*.rs)
add_custom_command(
  OUTPUT ${bridge_lib}
  COMMAND ${CMAKE_COMMAND} -E env ${bridge_env} ${PENG_CARGO} ${bridge_args}
  # cargo leaves an up-to-date library untouched, which would make it look older than its sources for ever.
  COMMAND ${CMAKE_COMMAND} -E touch ${bridge_lib}
  DEPENDS ${bridge_sources} ${bridge_dir}/Cargo.toml ${bridge_dir}/Cargo.lock
  COMMENT "Building the Rust text bridge (a few minutes the first time)"
  USES_TERMINAL
  VERBATIM)
add_custom_target(peng_text_bridge_build DEPENDS ${bridge_lib})

add_library(peng_text_bridge STATIC IMPORTED GLOBAL)
add_dependencies(peng_text_bridge peng_text_bridge_build)
set_target_properties(peng_text_bridge PROPERTIES IMPORTED_LOCATION ${bridge_lib})
target_link_libraries(peng_text_bridge INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
