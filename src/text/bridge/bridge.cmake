# SPDX-License-Identifier: Apache-2.0
# peng_text_bridge: the Rust static library in this folder, built by cargo.
#
# PENG_CARGO and PENG_RUSTC name the Rust to use; scripts/find-cargo chooses by default ($CARGO, PATH, the system's).
# PENG_RUST_TARGET is the target of a cross build, e.g. aarch64-unknown-linux-gnu.
set(PENG_RUST_TARGET "" CACHE STRING "Rust target triple of a cross build; empty for the machine's own")

# The library is the same for every build of one target, sanitized or not, so the presets build it once for all.
set(PENG_CARGO_DIR ${CMAKE_BINARY_DIR}/cargo CACHE PATH "where cargo builds the text bridge")

if(NOT PENG_CARGO)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../../../scripts/find-cargo OUTPUT_VARIABLE found RESULT_VARIABLE failed)
  string(REGEX MATCHALL "[^\n]+" found "${found}")
  list(LENGTH found n_found)
  if(failed OR NOT n_found EQUAL 2)
    message(FATAL_ERROR "cargo 1.87 or newer is needed for src/text/bridge and was not found. Install it "
                        "(Debian 12: apt install cargo-web rustc-web; others: rustup) or set PENG_CARGO.")
  endif()
  list(GET found 0 path)
  set(PENG_CARGO ${path} CACHE FILEPATH "cargo for the text bridge")
  list(GET found 1 path)
  set(PENG_RUSTC ${path} CACHE FILEPATH "rustc that belongs to PENG_CARGO")
endif()

set(bridge_dir ${CMAKE_CURRENT_LIST_DIR})
set(bridge_target_dir ${PENG_CARGO_DIR})
set(bridge_env CARGO_TARGET_DIR=${bridge_target_dir})
if(PENG_RUSTC)
  list(APPEND bridge_env RUSTC=${PENG_RUSTC})
endif()
if(DEFINED ENV{RUSTFLAGS})
  list(APPEND bridge_env "RUSTFLAGS=$ENV{RUSTFLAGS}")
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
