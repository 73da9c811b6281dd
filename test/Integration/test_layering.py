"""Who may include whom (docs/Architecture.md), and how long a file may be."""

import ast
import re

from conftest import ROOT

# What each library may include beside itself; headers outside the project are
# checked below. Driver sees everything but the runtime's inside.
GRAPH = {"Sharding", "Interfaces", "Dialect/Graph"}
DIST = GRAPH | {"Dialect/Dist"}
EXEC = DIST | {"Dialect/Exec"}
COST = {"Sharding", "Schedule", "Plan/Plan", "Plan/Solve", "Plan/Cost"}
SEARCH = COST | {"Simulate", "Plan/Predict", "Plan/Shard"}
PLAN = {
    "Plan/Plan": {"Sharding", "Schedule"},
    "Plan/Tools": {"Schedule", "Plan/Plan"},
    "Plan/Solve": set(),
    "Plan/Cost": COST | {"Simulate"},
    "Plan/Emulate": {"Schedule"},
    "Plan/Predict": COST | {"Simulate", "Plan/Emulate"},
    "Plan/Shard": COST,
    "Plan/Search": SEARCH,
    "Plan/Explain": SEARCH | {"Plan/Search"},
}
ALLOWED = {
    "Sharding": set(),
    "Weights": set(),
    "Schedule": set(),
    "Simulate": {"Schedule"},
    **PLAN,
    "Report": {"Sharding", "Schedule", "Simulate", *PLAN},
    "Interfaces": {"Sharding"},
    "Dialect/Graph": {"Sharding", "Interfaces"},
    "Dialect/Dist": GRAPH,
    "Dialect/Exec": DIST,
    "Interpreter": EXEC,
    "Raise": GRAPH,
    "Import": {"Weights"},
    "Import/Build": GRAPH | {"Import", "Raise", "Weights"},
    "Import/ONNX": GRAPH | {"Import", "Import/Build", "Raise", "Weights"},
    "Import/PyTorch": GRAPH | {"Import", "Import/Build", "Raise", "Weights"},
    "Training": GRAPH,
    "PlanBridge": DIST | {"Plan/Plan", "Plan/Predict", "Plan/Shard", "Plan/Search", "Report"},
    "Stages": EXEC | {"Schedule", "Target"},
    "Twin": DIST,
    "Partition": DIST,
    "Replay": set(),
    "Target": EXEC,
    "Kernels": EXEC | {"Target"},
    "Lower": EXEC | {"Schedule", "Target"},
    "Target/CPU": EXEC | {"Target", "Kernels"},
    "Target/CUDA": EXEC | {"Target", "Kernels"},
    "Target/Targets": EXEC | {"Target", "Target/CPU", "Target/CUDA"},  # two files: the list of targets
    "Pipelines": EXEC | {"Raise", "Training", "Stages", "Partition", "Kernels", "Lower", "Target"},
    "Package": EXEC | {"Weights"},
    "CAPI": {"Driver", "Plan/Plan"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
PLAIN = {"Sharding", "Schedule", "Simulate", *PLAN, "Replay", "Report", "Weights"}


def library(path: str) -> str | None:
    """The library a path under dtc/ belongs to."""
    known = [*ALLOWED, "Driver"]
    return next((name for name in sorted(known, key=len, reverse=True)
                 if path.startswith((name + "/", name + "."))), None)


def sources():
    for top in ("include", "lib", "tools"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                yield path, INCLUDE.findall(path.read_text())


def test_compiler_libraries_include_only_what_they_may():
    wrong = []
    for path, includes in sources():
        relative = path.relative_to(ROOT).as_posix()
        owner = library(re.sub(r"^(include/dtc|lib)/", "", relative))
        if owner is None or owner not in ALLOWED:
            continue
        for include in includes:
            used = library(include.removeprefix("dtc/")) if include.startswith("dtc/") else None
            testing = "/Testing/" in relative and used == "Interpreter"
            if used and used != owner and used not in ALLOWED[owner] and not testing:
                wrong.append(f"{relative}: {include}")
            if owner in PLAN and include.startswith("../"):
                wrong.append(f"{relative}: {include}")
            if owner in PLAIN and include.startswith(("mlir/", "llvm/")):
                wrong.append(f"{relative}: {include}")
            if "pb.h" in include and owner != "Import/ONNX":
                wrong.append(f"{relative}: {include}")
    assert not wrong, "\n".join(wrong)


def test_runtime_includes_only_itself():
    wrong = [
        f"{path.relative_to(ROOT)}: {include}"
        for path, includes in sources()
        if "dtc-rt" in path.parts or "Runtime" in path.parts or "dtc-run" in path.parts
        for include in includes
        if include.startswith(("dtc/", "mlir/", "llvm/")) or "pb.h" in include
    ]
    assert not wrong, "\n".join(wrong)


# Which folders of the runtime one of them sees. What lies beside them sees them all, and they see
# its interfaces.
ROOMS = {
    "Program": set(),
    "Files": {"Program"},
    "Threads": {"Program"},
    "Processes": {"Program"},
    "CPU": {"Program"},
    "CUDA": {"Program"},
    "Checkpoint": {"Program", "Files", "CPU"},
}
INTERFACES = {"Status", "Device", "Communicator", "Reduce", "Profile", "Program_generated", "Run"}
# Likewise of the driver: what one of its folders sees of the headers beside them.
DRIVER = {"Flags": set(), "Planning": {"Phases", "Request"}, "Calibration": {"Commands", "WriteText"}}


def test_folders_of_the_runtime_see_each_other_in_one_order():
    wrong = []
    for path, includes in sources():
        room = path.parent.name
        for include in includes if room in ROOMS and {"dtc-rt", "Runtime"} & set(path.parts) else ():
            used = re.fullmatch(r"dtc-rt/(?:(\w+)/)?(\w+)\.h", include)
            if used and used[1] != room and not (used[1] in ROOMS[room] if used[1] else used[2] in INTERFACES):
                wrong.append(f"{path.relative_to(ROOT)}: {include}")
    assert not wrong, "\n".join(wrong)


def test_folders_of_the_driver_dont_see_each_other():
    inside = [(path, include) for path, includes in sources() if path.parent.parent == ROOT / "lib/Driver"
              for include in includes if include.startswith("../")]
    wrong = [(path, include) for path, include in inside
             if include[3:].removesuffix(".h") not in DRIVER[path.parent.name]]
    assert inside and not wrong, wrong


def test_compiler_shares_only_the_package_format_with_the_runtime():
    """But for Driver, which reads artifacts and weight files (inspect, --weights) and measures the
    runtime's own calls (calibrate), and for the C API, which is over both."""
    shared = {"dtc-rt/Program/CallNumbers.h", "dtc-rt/Program/PackageFormat.h", "dtc-rt/Program_generated.h"}
    wrong = [
        f"{path.relative_to(ROOT)}: {include}"
        for path, includes in sources()
        if "dtc-rt" not in path.parts and "Runtime" not in path.parts and "dtc-run" not in path.parts
        and not {"Driver", "CAPI"} & set(path.parts) and "dtc-cpu" not in path.parts
        for include in includes
        if include.startswith("dtc-rt/") and include not in shared
    ]
    assert not wrong, "\n".join(wrong)


def test_what_opens_files_sees_nothing_of_the_project():
    wrong = [
        f"{path.relative_to(ROOT)}: {include}"
        for path, includes in sources()
        if "dtc-io" in path.parts or "IO" in path.parts
        for include in includes
        if include.startswith(("dtc/", "dtc-rt/", "mlir/", "llvm/"))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_python_package_sees_the_c_api_alone():
    wrong = [f"{path.relative_to(ROOT)}: {include}"
             for path in sorted((ROOT / "python").rglob("*")) if path.suffix in (".h", ".cpp")
             for include in INCLUDE.findall(path.read_text())
             if include.startswith(("dtc", "mlir/", "llvm/")) and not include.startswith("dtc-c/")]
    assert not wrong, "\n".join(wrong)


def test_files_are_opened_in_one_place():
    """include/dtc-io says how; what is written, the kernel's own files and temporary ones aside."""
    openers = re.compile(r"ifstream|\bfopen\(|MemoryBuffer::getFile|YAML::LoadFile|unzOpen(64)?\(|O_RDONLY")
    may = {"lib/IO/InputFile.cpp", "lib/Runtime/Program/MappedFile.cpp", "lib/Package/ZipWriter.cpp", "lib/Target/CPU/Link.cpp",
           "lib/Target/CUDA/Ptxas.cpp", "lib/Runtime/CPU/Processor.cpp", "lib/Runtime/HeldUp.cpp",
           "lib/Runtime/Checkpoint/Folder.cpp", "lib/Runtime/Program/PartialFiles.cpp", "lib/IO/SuddenEnd.cpp"}
    wrong = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, _ in sources()
        if path.relative_to(ROOT).as_posix() not in may and "Testing" not in path.parts and "dtc-plan-test" not in path.parts
        for match in openers.finditer(path.read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_exit_codes_are_made_where_programs_end():
    """All else gives an error's category (dtc-io/Error.h). The last of these reads the code of another program."""
    may = {"lib/Driver/Driver.cpp", "lib/Runtime/CommandLine.cpp", "lib/Runtime/Run.cpp", "lib/Runtime/Processes/LocalProcesses.cpp",
           "lib/IO/ExitCodes.cpp", "lib/IO/SuddenEnd.cpp", "include/dtc-io/ExitCodes.h", "lib/Driver/Flags/HuggingFace.cpp"}
    assert {path.relative_to(ROOT).as_posix() for path, _ in sources()
            if re.search(r"\bexitCodeOf|\bcategoryOf\(\w*(code|Code)\b", path.read_text())} == may


def test_a_device_is_known_to_its_target_alone():
    """dtc-cpu says how library calls are made: for the CPU's target, its device in the runtime, and
    what measures it; dtc-cuda, CUDA's libraries, for the runtime's device. Other phases see targets
    through Target.h, the driver through their list."""
    users = ("lib/Target/CPU", "lib/Runtime", "include/dtc-cpu", "lib/Driver/Calibration/Calibrate.cpp")
    wrong = []
    for path, includes in sources():
        relative = path.relative_to(ROOT).as_posix()
        for include in includes:
            if include.startswith("dtc-cpu/") and not relative.startswith(users):
                wrong.append(f"{relative}: {include}")
            if relative.startswith("include/dtc-cpu") and include.startswith(("dtc/", "dtc-rt/")) \
                    and include != "dtc-rt/Program/TensorCalls.h":
                wrong.append(f"{relative}: {include}")
            if include.startswith("dtc-cuda/") and not relative.startswith(
                    ("lib/Runtime/CUDA", "include/dtc-cuda")):
                wrong.append(f"{relative}: {include}")
            if include.startswith("dtc/Target/CPU") and not relative.startswith(
                    ("lib/Target/", "include/dtc/Target/CPU")):
                wrong.append(f"{relative}: {include}")
    assert not wrong, "\n".join(wrong)


def test_passes_are_declared_with_an_example():
    """In the Passes.td of their library, of which the documents are made (ninja -C build dtc-docs)."""
    by_hand = [path.relative_to(ROOT).as_posix() for path, _ in sources()
               if re.search(r"\bPass(Wrapper|Registration|PipelineRegistration)<", path.read_text())]
    assert by_hand == ["lib/Pipelines/Pipelines.cpp"]  # which runs others on each rank
    declared = [each for path in sorted((ROOT / "include").rglob("Passes.td"))
                for each in re.split(r"^(?=def )", path.read_text(), flags=re.M)[1:]]
    assert len(declared) > 10
    for text in declared:
        assert re.search(r'let summary = ".+";', text), text
        description = re.search(r"let description = \[\{(.*?)\n  \}\];", text, re.S)
        assert description and "\n        " in description[1], text


def written(*suffixes: str):
    """The files that people write, with what is in them."""
    for top in ("include", "lib", "tools", "test", "scripts", "cmake", "bench", "python"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in suffixes:
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def test_no_file_is_too_long():
    long = {path: length for path, text in written(".h", ".cpp", ".td", ".py", ".sh", ".cmake", ".mlir")
            if (length := text.count("\n")) > 500}
    assert not long, long


def functions_of(path: str, text: str):
    """Functions outside of classes, with their lines. In C++ they begin and end at the margin."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                yield node.name, node.end_lineno - node.lineno + 1
        return
    for match in re.finditer(r"^(?!namespace|struct|class|public|private|protected)([\w\[~][^;{}]*\([^;]*?) \{\n.*?^\}", text, re.M | re.S):
        yield match[1].split("\n")[0], match[0].count("\n") + 1


def test_no_function_is_too_long():
    """Those inside of classes are clang-tidy's (.clang-tidy)."""
    found = [(path, name, lines) for path, text in written(".h", ".cpp", ".py")
             for name, lines in functions_of(path, text)]
    assert len(found) > 10_000
    long = [each for each in found if each[2] > 60]
    assert not long, long


def test_the_fuzzed_library_has_all_flags():
    """The fuzzer of flags links it alone; programs that the tests build link the whole driver beside it."""
    folder = ROOT / "lib/Driver"
    listed = (folder / "CMakeLists.txt").read_text().split("dtc_add_library(dtcFlags")[1].split(")")[0].split()
    flags = sorted(folder.glob("Flags/*.cpp"))
    assert flags and [path.name for path in flags if f"Flags/{path.name}" not in listed] == []


def test_updates_are_priced_as_the_target_makes_them():
    """The planner knows no target, so that it says itself how many tensors one kernel updates."""
    priced = re.search(r"kTensorsOfUpdate = (\d+);", (ROOT / "lib/Plan/Cost/KernelModel.cpp").read_text())
    made = re.search(r"kMostPieces = (\d+),", (ROOT / "lib/Target/CUDA/CudaTarget.cpp").read_text())
    assert priced[1] == made[1]
