# SPDX-License-Identifier: Apache-2.0
# Cross build for 64-bit Arm against the sysroot that scripts/arm64-sysroot makes; tests run under qemu-user.
# Environment: PENG_SYSROOT (the sysroot), PENG_QEMU_CPU (a qemu -cpu name; neoverse-n1 has the instructions of a
# Kunpeng 920: dotprod, fp16, LSE atomics, no SVE).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
if(NOT PENG_SYSROOT)
  set(PENG_SYSROOT $ENV{PENG_SYSROOT})
endif()
if(NOT PENG_SYSROOT)
  message(FATAL_ERROR "PENG_SYSROOT is not set; use `make arm64`, or set it to what scripts/arm64-sysroot prints")
endif()
set(PENG_SYSROOT ${PENG_SYSROOT} CACHE PATH "Sysroot with the arm64 libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PENG_SYSROOT)
set(CMAKE_SYSROOT ${PENG_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# Libraries that are needed only by other shared libraries are looked for here too.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu")

set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

set(PENG_QEMU_CPU neoverse-n1)
if(DEFINED ENV{PENG_QEMU_CPU})
  set(PENG_QEMU_CPU $ENV{PENG_QEMU_CPU})
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-cpu;${PENG_QEMU_CPU};-L;${CMAKE_SYSROOT})
