# Flags, and the one way to declare a library: dtc_add_library.

add_compile_options(-Wall -Wextra -Wno-unused-parameter -fno-strict-aliasing)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-deprecated-declarations)
  add_link_options(-fuse-ld=lld)
else()
  add_compile_options(-Wno-restrict) # GCC 12 is wrong about std::string (its bug 105329)
endif()
add_link_options(-Wl,--gc-sections)
add_compile_options(-ffunction-sections -fdata-sections)

if(DTC_SANITIZE STREQUAL "address")
  # LLVM has no run-time types, which -fsanitize=vptr needs.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined -fno-sanitize=vptr)
elseif(DTC_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(DTC_SANITIZE)
  message(FATAL_ERROR "DTC_SANITIZE is address or thread: ${DTC_SANITIZE}")
endif()
if(DTC_SANITIZE)
  add_compile_options(-fno-omit-frame-pointer -g1)
endif()

# What reads files tells the fuzzers which of its branches an input reached (test/Fuzz). These are the parts of
# -fsanitize=fuzzer-no-link, which itself would need a precompiled header of its own.
set(DTC_FUZZED dtcIO dtcRuntime dtcPlan dtcPlanTools dtcImportBuild dtcImportONNX dtcImportPyTorch dtcFlags)
set(DTC_FUZZER_COVERAGE -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)

# The compiler lists the headers of a file for ninja: ccache needn't preprocess the file once more for them.
find_program(DTC_CCACHE ccache)
if(DTC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${DTC_CCACHE})
endif()

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Without this a precompiled header differs from build to build and ccache never hits.
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()

# The precompiled header of plain C++: the standard library, the JSON reader and the format of programs, which take
# longer to parse than most of our files.
include(DtcProgramFormat)
add_library(dtcPlainPch OBJECT ${PROJECT_SOURCE_DIR}/cmake/PlainPch.cpp)
target_link_libraries(dtcPlainPch PRIVATE dtcProgramFormat)
target_precompile_headers(dtcPlainPch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/PlainPch.h)

# dtc_add_library(NAME [MLIR] [HEADER target] SOURCES file... [LINK target...] [DEPENDS target...])
#
# MLIR: the library sees MLIR and LLVM headers, shares their precompiled header
# and links the MLIR dynamic library. Without it the library is plain C++ and
# may not include any of them. HEADER: whose precompiled header it takes instead.
function(dtc_add_library name)
  cmake_parse_arguments(ARG "MLIR" "HEADER" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
  set(header dtcPlainPch)
  if(ARG_MLIR)
    target_link_libraries(${name} PUBLIC dtcMLIR)
    set(header dtcMLIRPch)
  endif()
  if(ARG_HEADER)
    set(header ${ARG_HEADER})
  endif()
  target_precompile_headers(${name} REUSE_FROM ${header})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(DTC_SANITIZE STREQUAL "address" AND name IN_LIST DTC_FUZZED)
    target_compile_options(${name} PRIVATE ${DTC_FUZZER_COVERAGE})
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# A program takes a precompiled header, too. Those are made with -fPIC, and programs get -fPIE.
function(dtc_reuse_header program from)
  set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${program} PRIVATE -fPIC)
  target_precompile_headers(${program} REUSE_FROM ${from})
endfunction()
