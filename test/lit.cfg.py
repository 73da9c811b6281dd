import os

import lit.formats

config.name = "dtc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Integration", "Unit", "models", "lib"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.dtc_obj_root, "test")

tools = [os.path.join(config.dtc_obj_root, "bin"), config.llvm_tools_dir]
config.environment["PATH"] = os.pathsep.join([*tools, os.environ.get("PATH", "")])
config.substitutions.append(("%models", os.path.join(config.dtc_src_root, "test", "models")))
