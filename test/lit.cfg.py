import os

import lit.formats

config.name = "dtc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Integration", "Unit", "models", "lib"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.dtc_obj_root, "test")

tools = [os.path.join(config.dtc_obj_root, "bin"), config.llvm_tools_dir]
config.environment["DTC_CALIBRATION"] = "off"  # plans must be the same everywhere
config.environment["PATH"] = os.pathsep.join([*tools, os.environ.get("PATH", "")])
config.substitutions.append(("%models", os.path.join(config.dtc_src_root, "test", "models")))

# A GPU that is there, if one is wanted; else the emulated one, where it is built.
emulator = os.path.join(config.dtc_obj_root, "lib", "gpu-emulator")
libraries = os.environ.get("DTC_CUDA_LIBRARY_PATH", emulator)
config.environment["DTC_CUDA_LIBRARY_PATH"] = libraries
if os.path.exists(os.path.join(libraries, "libcuda.so.1")):
    config.available_features.add("gpu")

# oneDNN multiplies bf16 with AVX-512 alone.
with open("/proc/cpuinfo") as processor:
    if "avx512bw" in processor.read().split():
        config.available_features.add("bf16-products")
