"""The ONNX project's own tests of each operator: imported, compiled, run, and compared.

    onnx_nodes.py FOLDER_OF_BINARIES [--only REGEX] [--results FILE.json] [--every N/M]

PyPI's onnx makes the tests. Each is one model with its inputs and outputs. A test is
  right      its outputs are those that ONNX gives, by dtc-run
  constant   the same, with the inputs that decide shapes stored in the model, as exporters write them
  listed     refused, for a reason of reasons.py, or with outputs that are one draw of many
  refused    refused otherwise
  wrong      anything else: other outputs, a crash
The command fails where a test is refused or wrong, and where fewer operators pass than asked (--operators N).
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import arrays
from reasons import BY_ONNXRUNTIME, draws, reason_of

ROUNDINGS = {TensorProto.BFLOAT16: 2.0 ** -6, TensorProto.FLOAT16: 2.0 ** -9}  # four of these types
SAMPLES, NOTHING = "/samples", "nothing"
SMALL = 4096  # elements of an input that may be a constant


def collect() -> list:
    """All tests, in the order of their names."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        return sorted(collect_testcases(None), key=lambda case: case.name)


def operators(cases: list) -> dict[str, str]:
    """The operator that each test is about."""
    found = {}
    for case in cases:
        if "_expanded" not in case.name:
            own = [node for node in case.model.graph.node if node.op_type != "Constant"] or case.model.graph.node
            found[case.name] = own[0].op_type
    for case in cases:
        if "_expanded" in case.name:
            base = case.name.split("_expanded")[0]
            found[case.name] = found.get(base, case.model.graph.node[0].op_type)
    return found


def is_array(value: object) -> bool:
    return isinstance(value, numpy.ndarray) and value.dtype in arrays.CODES


def as_array(value: object) -> object:
    """onnx gives some scalars and tensors of bfloat16 in forms of their own."""
    if isinstance(value, TensorProto) and value.data_type != TensorProto.STRING:
        return numpy_helper.to_array(value)
    return numpy.asarray(value) if isinstance(value, numpy.generic) else value


def inputs_of(case) -> dict:
    """The test's inputs by name."""
    return dict(zip((info.name for info in case.model.graph.input), map(as_array, case.data_sets[0][0])))


def variant(case, constants: set[str]) -> onnx.ModelProto:
    """The test's model with sizes in full, and with some inputs as constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph, data = model.graph, inputs_of(case)
    del graph.input[:]
    for info in case.model.graph.input:
        array = data[info.name]
        if info.name in constants:
            graph.initializer.append(numpy_helper.from_array(array, info.name))
        elif is_array(array):
            graph.input.append(helper.make_tensor_value_info(
                info.name, info.type.tensor_type.elem_type, array.shape))
        else:
            graph.input.append(info)
    return model


def with_samples(model: onnx.ModelProto, inputs) -> onnx.ModelProto:
    """The model with a first dimension of 1 in front of its inputs and outputs: dtc-run takes samples."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    types = {info.name: info.type.tensor_type.elem_type for info in model.graph.input}
    del graph.input[:], graph.output[:], graph.node[:]
    if not inputs:  # dtc-run takes samples of something
        graph.input.append(helper.make_tensor_value_info(NOTHING, TensorProto.FLOAT, [1, 1]))
        graph.node.append(helper.make_node("Identity", [NOTHING], [NOTHING + "/same"]))
        graph.output.append(helper.make_tensor_value_info(NOTHING + "/same", TensorProto.FLOAT, [1, 1]))
    for name in inputs:
        shape = list(inputs[name].shape)
        graph.input.append(helper.make_tensor_value_info(name + SAMPLES, types[name], [1, *shape]))
        graph.initializer.append(numpy_helper.from_array(numpy.array(shape, numpy.int64), name + "/shape"))
        graph.node.append(helper.make_node("Reshape", [name + SAMPLES, name + "/shape"], [name]))
    graph.node.extend(model.graph.node)
    for info in model.graph.output:
        if opset < 13:
            node = helper.make_node("Unsqueeze", [info.name], [info.name + SAMPLES], axes=[0])
        else:
            graph.initializer.append(numpy_helper.from_array(numpy.array([0], numpy.int64), info.name + "/axes"))
            node = helper.make_node("Unsqueeze", [info.name, info.name + "/axes"], [info.name + SAMPLES])
        graph.node.append(node)
        graph.output.append(helper.make_empty_tensor_value_info(info.name + SAMPLES))
    return result


class Runner:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.environment = {**os.environ, "DTC_CALIBRATION": "off", "OMP_NUM_THREADS": "1"}

    def call(self, program: str, *arguments: object) -> subprocess.CompletedProcess:
        return subprocess.run([str(self.folder / program), *map(str, arguments)], capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL, env=self.environment)

    def run(self, model: onnx.ModelProto, inputs: dict[str, numpy.ndarray], work: pathlib.Path):
        """The outputs by name, or why there are none: (exit code, message)."""
        onnx.save(with_samples(model, inputs), work / "m.onnx")
        done = self.call("dtc", "compile", work / "m.onnx", "--devices", 1, "--loss", "none", "--no-verify", "-o",
                         work / "m.dtc")
        if done.returncode == 0:
            data = {name + SAMPLES: value[None] for name, value in inputs.items()}
            arrays.save(data or {NOTHING: numpy.zeros((1, 1), numpy.float32)}, work / "data.safetensors")
            done = self.call("dtc-run", work / "m.dtc", "--data", work / "data.safetensors", "--no-shuffle",
                             "--outputs", work / "outputs.safetensors")
        if done.returncode == 0:
            outputs = arrays.load(work / "outputs.safetensors")
            return {name.removesuffix(SAMPLES): value[0] for name, value in outputs.items()}
        lines = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()[-1:]
        message = lines[-1].split("error: ")[-1].split("m.onnx: ")[-1] if lines else ""
        return done.returncode, message


def wanted(case) -> list:
    if case.name not in BY_ONNXRUNTIME:
        return case.data_sets[0][1]
    import onnxruntime

    session = onnxruntime.InferenceSession(case.model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs_of(case))


def is_draw(case, got: dict[str, numpy.ndarray]) -> bool:
    """Whether each element is dropped or scaled, and the mask says which."""
    x, *rest = case.data_sets[0][0]
    scaled = x / (1 - (rest[0] if rest and rest[0] is not None else 0.5))
    names = [info.name for info in case.model.graph.output]
    kept = got[names[0]] != 0
    return (kept.shape == x.shape and numpy.allclose(got[names[0]], numpy.where(kept, scaled, 0), 1e-5) and
            (len(names) == 1 or numpy.array_equal(got[names[1]], kept)))


def differences(case, got: dict[str, numpy.ndarray]) -> str:
    """How the outputs differ from the test's; empty where they don't."""
    for info, want in zip(case.model.graph.output, wanted(case)):
        if info.name not in got:
            return f"lacks {info.name}"
        have, want = got[info.name], numpy.asarray(as_array(want))
        # Floats come in the precision that dtc computes in.
        same = have.dtype == want.dtype or {have.dtype.kind, want.dtype.kind} <= set("fV")
        if not same or have.shape != want.shape:
            return f"{info.name}: {have.dtype}{list(have.shape)}, not {want.dtype}{list(want.shape)}"
        if want.dtype.kind in "fV":
            have, want = have.astype(numpy.float64), want.astype(numpy.float64)
            largest = numpy.abs(want[numpy.isfinite(want)]).max(initial=0)  # sums of float32 are seldom exactly 0
            rtol = max(case.rtol, ROUNDINGS.get(info.type.tensor_type.elem_type, 0))
            close = numpy.allclose(have, want, rtol, case.atol + 1e-6 * largest, equal_nan=True)
        else:
            close = numpy.array_equal(have, want)
        if not close:
            return f"{info.name}: {have.ravel()[:6]}, not {want.ravel()[:6]}"
    return ""


def choices(case) -> list[set[str]]:
    """Which inputs to store in the model: none, then those that may say shapes, then all small ones."""
    names = [info.name for info in case.model.graph.input]
    small = {name: array for name, array in inputs_of(case).items() if is_array(array) and array.size <= SMALL}
    lists = {name for name, array in small.items()
             if array.ndim <= 1 and (array.dtype.kind in "ib" or array.size <= 1) and name != names[0]}
    every = {name for name in small if name != names[0]}
    return [set(), lists, lists | {name for name in every if small[name].dtype.kind in "ib"}, every, set(small)]


def examine(case, runner: Runner) -> tuple[str, str]:
    """How the test ends, and why."""
    first, tried = None, []
    for constants in choices(case):
        if constants in tried:
            continue
        tried.append(constants)
        data = inputs_of(case)
        inputs = {name: value for name, value in data.items() if name not in constants}
        if not all(map(is_array, inputs.values())):
            return ("listed", reason_of(case)) if reason_of(case) else ("refused", "an input that is no tensor")
        with tempfile.TemporaryDirectory() as work:
            try:
                outcome = runner.run(variant(case, constants), inputs, pathlib.Path(work))
            except subprocess.TimeoutExpired:
                return "wrong", "takes more than two minutes"
        if isinstance(outcome, dict):
            difference = differences(case, outcome)
            if difference and draws(case):
                return ("listed", "random numbers") if is_draw(case, outcome) else ("wrong", "is no draw of dropout")
            if difference:
                return "wrong", difference
            return ("constant", ", ".join(sorted(constants))) if constants else ("right", "")
        code, message = outcome
        if code not in (2, 3):
            return "wrong", f"exit code {code}: {message}"
        first = first or message
    return ("listed", reason_of(case)) if reason_of(case) else ("refused", first)


def summary(results: dict[str, tuple[str, str]], of: dict[str, str]) -> int:
    """Prints how the tests ended by operator; returns how many operators pass."""
    table = collections.defaultdict(collections.Counter)
    for name, (state, _) in results.items():
        table[of[name]][state] += 1
    passing = 0
    for operator in sorted(table):
        count = table[operator]
        passes = not (count["refused"] or count["wrong"]) and (count["right"] or count["constant"])
        passing += bool(passes)
        print(f"{operator:28}", "pass   " if passes else "       ",
              "  ".join(f"{state} {count[state]}" for state in ("right", "constant", "listed", "refused", "wrong")
                        if count[state]))
    total = collections.Counter(state for state, _ in results.values())
    print(f"{len(results)} tests:", ", ".join(f"{count} {state}" for state, count in total.most_common()))
    reasons = collections.Counter(why for state, why in results.values() if state == "listed")
    for why, count in reasons.most_common():
        print(f"  listed: {count:4}  {why}")
    print(f"{passing} of {len(table)} operators pass")
    return passing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--only", default="", help="tests whose names this expression is found in")
    parser.add_argument("--slice", default="0/1", help="N/M: of every M tests the N-th")
    parser.add_argument("--operators", type=int, default=0, help="how many must pass")
    parser.add_argument("--results", type=pathlib.Path, help="where to write how each test ended")
    options = parser.parse_args()
    part, parts = map(int, options.slice.split("/"))
    cases = collect()
    of = operators(cases)
    chosen = [case for case in cases if re.search(options.only, case.name)][part::parts]
    runner = Runner(options.bin)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda case: examine(case, runner), chosen))
    results = {case.name: outcome for case, outcome in zip(chosen, outcomes)}
    for name, (state, why) in results.items():
        if state in ("wrong", "refused"):
            print(f"{state:8} {name}: {why}")
    if options.results:
        options.results.write_text(json.dumps(results, indent=1))
    passing = summary(results, of)
    failing = any(state in ("wrong", "refused") for state, _ in results.values())
    return int(failing or passing < options.operators)


if __name__ == "__main__":
    sys.exit(main())
