# MLIR and LLVM behind one interface target, with the shared precompiled header.

find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
set(MLIR_LINK_MLIR_DYLIB ON)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# mlir-tblgen reads include paths from directory properties only.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)

add_library(dtcMLIR INTERFACE)
separate_arguments(dtc_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(dtcMLIR INTERFACE ${dtc_llvm_definitions})
target_include_directories(dtcMLIR SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(dtcMLIR INTERFACE MLIR LLVM)

add_library(dtcMLIRPch OBJECT ${PROJECT_SOURCE_DIR}/cmake/Pch.cpp)
target_include_directories(dtcMLIRPch PUBLIC
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_link_libraries(dtcMLIRPch PUBLIC dtcMLIR dtcProgramFormat)
target_precompile_headers(dtcMLIRPch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/Pch.h)

# That of code generators: LLVM's dialects take three quarters of the time of most files that include them.
add_library(dtcTargetPch OBJECT ${PROJECT_SOURCE_DIR}/cmake/Pch.cpp)
target_include_directories(dtcTargetPch PUBLIC
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_link_libraries(dtcTargetPch PUBLIC dtcMLIR dtcProgramFormat)
target_precompile_headers(dtcTargetPch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/TargetPch.h)

# dtc_tablegen(TARGET in.td gen-flag out.inc [gen-flag out.inc]...)
function(dtc_tablegen target source)
  set(LLVM_TARGET_DEFINITIONS ${source})
  set(pairs ${ARGN})
  while(pairs)
    list(POP_FRONT pairs flag out)
    string(REPLACE " " ";" flags "${flag}")
    mlir_tablegen(${out} ${flags})
  endwhile()
  add_public_tablegen_target(${target})
  add_dependencies(dtc-headers ${target})
endfunction()
add_custom_target(dtc-headers)
add_dependencies(dtcMLIRPch dtc-headers)
add_dependencies(dtcTargetPch dtc-headers)

# dtc_passes(NAME): makes Passes.h.inc of the folder's Passes.td, with registerNAMEPasses, and
# docs/passes/NAME.md in the build folder by the target dtc-docs.
function(dtc_passes name)
  dtc_tablegen(Dtc${name}PassesIncGen Passes.td "-gen-pass-decls -name ${name}" Passes.h.inc)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.md -gen-pass-doc)
  set(page ${PROJECT_BINARY_DIR}/docs/passes/${name}.md)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_BINARY_DIR}/Passes.md ${page}
    DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/Passes.md)
  add_custom_target(dtc-docs-${name} DEPENDS ${page})
  add_dependencies(dtc-docs dtc-docs-${name})
endfunction()
add_custom_target(dtc-docs)
