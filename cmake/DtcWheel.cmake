# A wheel of the Python package that was built in DTC_WHEEL_FROM: nothing is compiled.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
  OUTPUT_VARIABLE dtc_suffix OUTPUT_STRIP_TRAILING_WHITESPACE)
set(dtc_built ${DTC_WHEEL_FROM}/python/dtc)
foreach(file _dtc${dtc_suffix} _dtc.pyi)
  if(NOT EXISTS ${dtc_built}/${file})
    message(FATAL_ERROR "${dtc_built} has no ${file}: build dtcPython and dtcPythonStub with this version of Python")
  endif()
  install(FILES ${dtc_built}/${file} DESTINATION dtc COMPONENT python)
endforeach()
foreach(target dtcPython dtcPythonStub) # which scikit-build-core builds
  add_custom_target(${target})
endforeach()
