# Program.fbs, compiled: what the compiler writes and the runtime reads.
#
# Link dtcProgramFormat and include "dtc-rt/Program_generated.h". It has the
# plain structs too (ProgramT, ...), in which the compiler builds a program.

find_program(DTC_FLATC flatc REQUIRED)
set(dtc_program_fbs ${PROJECT_SOURCE_DIR}/include/dtc-rt/Program.fbs)
set(dtc_program_header ${PROJECT_BINARY_DIR}/include/dtc-rt/Program_generated.h)
add_custom_command(
  OUTPUT ${dtc_program_header}
  COMMAND ${DTC_FLATC} --cpp --cpp-std c++17 --scoped-enums --gen-object-api
          -o ${PROJECT_BINARY_DIR}/include/dtc-rt ${dtc_program_fbs}
  DEPENDS ${dtc_program_fbs}
  COMMENT "Compiling Program.fbs"
  VERBATIM)
add_custom_target(dtcProgramFormatHeader DEPENDS ${dtc_program_header})

add_library(dtcProgramFormat INTERFACE)
add_dependencies(dtcProgramFormat dtcProgramFormatHeader)
target_include_directories(dtcProgramFormat INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)

# oneDNN, and libgomp for the number of threads it uses; find_package(OpenMP)
# does not know Debian's libgomp under clang.
add_library(dtcOneDNN INTERFACE)
target_link_libraries(dtcOneDNN INTERFACE dnnl -l:libgomp.so.1)
