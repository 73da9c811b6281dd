"""test/Behaviour, which proves that a change leaves the behaviour as it was: what it records, and what it finds."""

import copy
import json
import math
import os
import shutil
import sys

import numpy
import pytest
from safetensors.numpy import load_file, save_file

import recording
from conftest import BIN, MODELS, ROOT, call

sys.path.insert(0, str(ROOT / "test" / "Behaviour"))

import behaviour  # noqa: E402
import differences  # noqa: E402
import places  # noqa: E402
import published_plans  # noqa: E402
import times  # noqa: E402

#: These speak of dtc-run and have nothing to record: wrong inputs, who may include whom, and programs written by hand.
NOTHING_TO_RECORD = {"test_add_a_target", "test_bad_input", "test_behaviour", "test_checkpoints", "test_cuda_calls", "test_cuda_processes", "test_eval", "test_full_disk", "test_gpu_memory", "test_gpu_speed", "test_hostile", "test_hostile_settings",
                     "test_batch_dim", "test_layering", "test_low_memory", "test_onnx_nodes", "test_other_models", "test_processes", "test_profile", "test_repeats", "test_roles", "test_run_files", "test_torchrun", "test_ways_out"}


def entry(value) -> dict:
    return {"test": "t", "value": value}


BEFORE = {"quick": True, "failed": [], "unsteady": [], "missing": [], "entries": {
    "run a": entry({"steps": [{"loss": 8.696649551391602, "grad_norm": 6.25}, {"loss": 8.5, "grad_norm": 6.0}]}),
    "plan b": entry({"answer": {"plan": {"dp": 2, "zero": 0}, "stages": [1, 2]}}),
}}


def changed(change) -> dict:
    record = copy.deepcopy(BEFORE)
    change(record)
    return record


def test_equal_records_have_no_difference(capsys):
    assert differences.report(BEFORE, copy.deepcopy(BEFORE), 5) == 0
    assert "0 of 2 entries differ" in capsys.readouterr().out


@pytest.mark.parametrize("change, line", [
    (lambda r: r["entries"]["run a"]["value"]["steps"][0].update(loss=math.nextafter(8.696649551391602, 9)),
     "run a\n  (t)\n  steps[0].loss: 8.696649551391602 -> 8.696649551391603\n"),
    (lambda r: r["entries"]["run a"]["value"]["steps"].pop(), "steps: 2 elements -> 1"),
    (lambda r: r["entries"]["plan b"]["value"]["answer"]["plan"].pop("zero"), "answer.plan.zero: is gone, was 0"),
    (lambda r: r["entries"]["plan b"]["value"]["answer"]["plan"].update(ep=1), "answer.plan.ep: is new: 1"),
    (lambda r: r["entries"]["plan b"]["value"]["answer"]["plan"].update(zero=False), "answer.plan.zero: 0 -> False"),
    (lambda r: r["entries"]["plan b"].update(value={"code": 4, "refused": "no"}), "refused: is new: 'no'"),
    (lambda r: r["entries"].pop("plan b"), "plan b\n  (t)\n  is missing in the later record"),
    (lambda r: r["failed"].append("test_x"), "failed while the later record was made: test_x"),
    (lambda r: r["unsteady"].append("run d"), "computed two things in the later record: run d"),
])
def test_differences_are_named(capsys, change, line):
    assert differences.report(BEFORE, changed(change), 5) == 1
    assert line in capsys.readouterr().out


INSPECTED = {"arena_bytes": [100, 64], "loss": "mse", "zero": 0, "kernels": [
    {"name": "rows_0", "arch": "a"}, {"name": "pointwise_0", "arch": "a"}, {"name": "pointwise_1", "arch": "a"}]}


def test_differences_are_counted_by_place(capsys):
    """Two artifacts that change alike, and a run, are a line for each member that differs."""
    changed_one = {"arena_bytes": [75, 128], "zero": False, "fits": True, "kernels": [
        {"name": "pointwise_0", "arch": "a"}, {"name": "rows_0", "arch": "a"}, {"name": "columns_0", "arch": "a"}]}
    before = BEFORE | {"entries": {
        "compile a": entry(INSPECTED), "compile b": entry(INSPECTED), "run a": entry({"save-weights": {"h.0.w": "1", "h.1.w": "2"}})}}
    after = BEFORE | {"entries": {
        "compile a": entry(changed_one), "compile b": entry(INSPECTED | {"arena_bytes": [100]}),
        "run a": entry({"save-weights": {"h.0.w": "3", "h.1.w": "4"}}), "run b": entry({})}, "failed": ["test_x"]}
    assert places.report(before, after) == 1
    assert capsys.readouterr().out == """\
arena_bytes: 1 entries, 1 fall by up to 50 %, as in compile b: arena_bytes: 2 elements -> 1
arena_bytes[]: 1 entries, 1 fall, 1 rise by up to 50 %, as in compile a: arena_bytes[0]: 100 -> 75
fits: 1 entries, 1 new, as in compile a: fits: is new: True
kernels.columns: 1 entries, 1 new, as in compile a: kernels.columns: is new: 1
kernels.pointwise: 1 entries, 1 fall by up to 50 %, as in compile a: kernels.pointwise: 2 -> 1
loss: 1 entries, 1 gone, as in compile a: loss: is gone, was 'mse'
save-weights.TENSOR: 1 entries, 2 differ, as in run a: save-weights.h.0.w: '1' -> '3'
zero: 1 entries, 1 differ, as in compile a: zero: 0 -> False
failed while the later record was made: test_x
0 of 3 entries are equal; 1 are new
"""


def test_equal_records_have_no_place(capsys):
    assert places.report(BEFORE, copy.deepcopy(BEFORE)) == 0
    assert capsys.readouterr().out == "2 of 2 entries are equal; 0 are new\n"
    assert places.report(BEFORE, changed(lambda record: record["entries"].pop("run a"))) == 1
    assert "is missing in the later record: run a" in capsys.readouterr().out


def test_new_entries_are_counted(capsys):
    after = changed(lambda record: record["entries"].update({"run c": entry(1)}))
    assert differences.report(BEFORE, after, 5) == 0
    assert "0 of 2 entries differ; 1 are new" in capsys.readouterr().out


def test_an_empty_record_proves_nothing():
    empty = {"quick": True, "failed": [], "unsteady": [], "missing": [], "entries": {}}
    assert differences.report(empty, empty, 5) == 1


def test_records_of_two_sizes_are_not_compared(tmp_path):
    """It is said before anything is recorded."""
    quick, full = tmp_path / "quick", tmp_path / "full"
    for path in (quick, full):
        behaviour.write(path, {"quick": path == quick, "failed": [], "unsteady": [], "missing": [], "entries": {"a": entry(1)}})
    assert json.loads(full.read_text())["entries"] == {"a": entry(1)}
    for words in (["compare", quick, full], ["record", "--against", quick, "-o", tmp_path / "new"],
                  ["record", "--quick", "--against", full, "-o", tmp_path / "new"]):
        options = behaviour.arguments().parse_args([str(word) for word in words])
        with pytest.raises(SystemExit, match="one of the records is quick"):
            options.do(options)


def test_what_is_no_record_is_refused(capsys):
    with pytest.raises(SystemExit):
        behaviour.arguments().parse_args(["compare", "", "none"])
    assert "argument before: is no record: ." in capsys.readouterr().err


def train(folder, monkeypatch) -> dict[str, object]:
    """Compiles a copy of the MLP in a folder of its own and runs it; the entries by name."""
    folder.mkdir()
    recorder = recording.Recorder(folder / "record", BIN, MODELS)
    monkeypatch.setattr("conftest.RECORDER", recorder)
    model, data = folder / "copy.onnx", folder / "data.safetensors"
    shutil.copy(MODELS / "mlp.onnx", model)
    save_file(load_file(MODELS / "mlp.data.safetensors"), data)
    common = [model, "--loss", "cross_entropy", "--global-batch", 8]
    assert call("dtc", "plan", *common, "--devices", 2, "--json").code == 0
    assert call("dtc", "plan", *common, "--devices", 2, "--json", "--save-plan", folder / "plan.yaml").code == 0
    assert call("dtc", "plan", *common, "--devices", 2, "--compare", folder / "plan.yaml", "dp=2", "--json").code == 0
    assert call("dtc", "compile", *common, "--emit", "schedule").code == 0
    assert call("dtc", "compile", *common, "-o", folder / "m.dtc").code == 0
    assert call("dtc-run", folder / "m.dtc", "--data", data, "--steps", 3, "--log", folder / "log", "--save-weights",
                folder / "w").code == 0
    assert call("dtc-run", folder / "m.dtc", "--data", folder / "none").code == 3
    lines = [json.loads(line) for line in recorder.record.read_text().splitlines()]
    assert len(lines) == 6 and all("test_commands_are_recorded" in line[1] for line in lines)
    return {name: value for name, _, value in lines}


def test_commands_are_recorded(tmp_path, monkeypatch):
    found = train(tmp_path / "one", monkeypatch)
    assert train(tmp_path / "another", monkeypatch) == found  # names don't depend on folders, values not on the time
    planned, saved, compared, compiled, ran = found.items()  # --emit schedule has the same name as what it is compiled to
    model, data = (recording.digest(tmp_path / "one" / name) for name in ("copy.onnx", "data.safetensors"))
    assert planned[0] == f"plan {model}.onnx --loss cross_entropy --global-batch 8 --devices 2 --json"
    assert compiled[0] == f"compile {model}.onnx --loss cross_entropy --global-batch 8"
    assert ran[0] == f"run ({compiled[0]}) --data {data}.safetensors --steps 3"
    assert saved[0] == f"plan {model}.onnx --loss cross_entropy --global-batch 8 --devices 2 --json --save-plan"
    assert f'"(save-plan of {saved[0]})"' in json.dumps(compared[1]) and "planning_time_s" not in json.dumps(compared[1])
    assert "planning_time_s" not in planned[1] and planned[1]["predicted"]["step_time_s"] > 0
    assert compiled[1]["kernels"] and compiled[1]["world_size"] == 1
    log = [json.loads(line) for line in (tmp_path / "one" / "log").read_text().splitlines()]
    assert [(step["loss"], step["grad_norm"]) for step in ran[1]["steps"]] == [
        (line["loss"], line["grad_norm"]) for line in log]
    assert not recording.TIMES & set(ran[1]["steps"][0])
    weights = load_file(tmp_path / "one" / "w")
    assert set(ran[1]["save-weights"]) == set(weights)


def test_memory_plans_are_compiled_with_drawn_weights(tmp_path, monkeypatch):
    recorder = recording.Recorder(tmp_path / "record", BIN, MODELS)
    monkeypatch.setattr("conftest.RECORDER", recorder)
    command = ["compile", MODELS / "gpt2_b1.onnx", "--loss", "cross_entropy", "--global-batch", 2]
    assert call("dtc", *command, "--emit", "schedule").code == 0
    name, _, value = json.loads(recorder.record.read_text())
    assert name == "compile gpt2_b1.onnx --loss cross_entropy --global-batch 2" and value["arena_bytes"]


def test_what_is_measured_is_not_recorded(tmp_path):
    recorder = recording.Recorder(tmp_path / "record", BIN, MODELS)
    (tmp_path / "cluster.yaml").write_text("measured")
    recorder.add("dtc", ["calibrate", "-o", "cluster.yaml"], "", tmp_path)
    recorder.add("dtc", ["plan", "a", "--cluster", str(tmp_path / "cluster.yaml"), "--json"], "{}", tmp_path)
    assert not recorder.record.exists()
    recorder.add("dtc", ["plan", "a", "--cluster", "h100", "--json"], "{}", tmp_path)
    assert json.loads(recorder.record.read_text()) == ["plan a --cluster h100 --json", recorder_test(), {}]


def recorder_test() -> str:
    return os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")


def test_hashes_of_tensors_tell_values_types_and_shapes(tmp_path):
    values = [numpy.zeros((2, 3), numpy.float32), numpy.ones((2, 3), numpy.float32), numpy.zeros((3, 2), numpy.float32),
              numpy.zeros((2, 3), numpy.int32)]
    found = []
    for value in values:
        save_file({"a": value, "b": numpy.ones(4)}, tmp_path / "f")
        found.append(recording.tensors(tmp_path / "f"))
    assert len({hashes["a"] for hashes in found}) == 4 and len({hashes["b"] for hashes in found}) == 1


def test_what_is_given_twice_must_compute_the_same(tmp_path):
    part = tmp_path / "part"
    part.write_text('["a", "t", 1]\n["b", "t", 2]\n["a", "u", 1]\n')
    assert behaviour.merged([part, tmp_path / "none"]) == ({"a": entry(1), "b": entry(2)}, [])
    part.write_text('["a", "t", 1]\n["b", "t", 2]\n["a", "u", 2]\n')
    assert behaviour.merged([part]) == ({"b": entry(2)}, ["a"])


def test_a_record_goes_on_where_it_was_interrupted(tmp_path, monkeypatch, capsys):
    """Files that passed aren't run again; what failed, or can't be run, is named and run again."""
    monkeypatch.setattr(behaviour, "TESTS", tmp_path)
    tests = {"test_good": "assert True", "test_bad": "assert False", "test_broken": "this isn't Python"}
    for name, line in tests.items():
        (tmp_path / f"{name}.py").write_text(f"""
import os
def test_it():
    with open(os.environ["DTC_RECORD"], "a") as record:
        record.write('["{name}", "t", 1]\\n')
    {line}
""")
    folder = tmp_path / "pieces"
    folder.mkdir()
    entries, unsteady, failed = behaviour.record_tests(list(tests), BIN, folder, 2)
    assert set(entries) == {"test_good", "test_bad"} and unsteady == []
    assert len(failed) == 2 and "test_bad.py::test_it" in failed[0] and failed[1] == "test_broken.py (could not be run)"
    (tmp_path / "test_good.py").write_text("raise SystemExit")
    (tmp_path / "test_bad.py").write_text((tmp_path / "test_bad.py").read_text().replace("False", "True"))
    assert behaviour.record_tests(["test_good", "test_bad"], BIN, folder, 2) == (entries, [], [])
    assert "test_good: 1 passed" in capsys.readouterr().out


def test_pieces_are_of_one_set_of_binaries_and_tests(tmp_path, monkeypatch):
    monkeypatch.setattr(behaviour, "TESTS", tmp_path)
    folders = []
    for name, content in (("dtc", "one"), ("dtc", "other"), ("test_it.py", "more"), ("dtc", "one")):
        for program in ("dtc", "dtc-run"):
            (tmp_path / program).touch()
        (tmp_path / name).write_text(content)
        with behaviour.pieces_of(tmp_path, tmp_path / "pieces") as folder:
            assert folder.is_dir()
            folders.append(folder)
    assert len(set(folders)) == 4
    with behaviour.pieces_of(tmp_path, tmp_path / "pieces") as folder:
        assert folder == folders[3]
    with behaviour.pieces_of(tmp_path, None) as folder:
        assert folder.is_dir()
    assert not folder.exists()


def test_published_plans_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(published_plans.graphs, "CACHE", tmp_path)
    monkeypatch.setattr(published_plans.predict, "RESULTS", tmp_path / "results")
    cases = dict(list(published_plans.chosen(True).items())[:3])
    monkeypatch.setattr(published_plans, "chosen", lambda quick: cases)
    *_, last = cases.values()
    last.graph.path.write_bytes((MODELS / "gpt2.onnx").read_bytes())
    found, missing = published_plans.record(BIN / "dtc", tmp_path, True, 1)
    present = [name for name, case in cases.items() if case.graph == last.graph]
    assert list(found) == present and missing == sorted({case.graph.name for case in cases.values()} - {last.graph.name})
    value = found[present[-1]]["value"]
    assert "refused" in value or "planning_time_s" not in value["answer"]


def test_the_quick_part_has_every_architecture_and_is_small():
    quick, full = published_plans.chosen(True), published_plans.chosen(False)
    assert 30 <= len(quick) <= 60 and len(full) > 600
    assert set(quick) < set(full)
    small = {case.graph.architecture for case in full.values() if case.graph.layers <= published_plans.QUICK_LAYERS}
    for free in (True, False):
        assert {case.graph.architecture for case in quick.values() if (case.spec == "auto") == free} == small
    assert {case.graph for case in full.values() if case.spec == "auto"} == {case.graph for case in full.values()}


def test_all_tests_that_run_something_are_recorded():
    running = {path.stem for path in behaviour.TESTS.glob("test_*.py")
               if '"dtc-run"' in path.read_text() or "trainer.train(" in path.read_text()}
    assert running - NOTHING_TO_RECORD == set(behaviour.RUNS)


@pytest.mark.parametrize("slower, code, rounds", [(1.02, 0, 2), (1.05, 1, 6)])
def test_times_are_compared_by_the_least(tmp_path, monkeypatch, capsys, slower, code, rounds):
    """Noise only adds to the figures. What is too slow is measured for longer before it is believed."""
    listed = [times.Command(kind, kind, ()) for kind in ("compile", "plan")]
    monkeypatch.setattr(times, "commands", lambda folder: listed)
    noise = iter([0.5, 0.3, 0.0, 0.2, 0.0, 0.0, 0.0, 0.7] + 100 * [0.1])

    def seconds(dtc, command) -> float:
        return (slower if dtc.parent.name == "after" and command.kind == "plan" else 1.0) + next(noise)

    monkeypatch.setattr(times, "processor_seconds", seconds)
    assert times.report(tmp_path / "before", tmp_path / "after", 2, 1.03) == code
    out = capsys.readouterr().out
    assert f"the least of {rounds} rounds" in out and f"{slower:.3f}\n" in out
