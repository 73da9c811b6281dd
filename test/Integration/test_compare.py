"""`dtc plan --compare`: two plans of one model side by side."""

import json

import pytest

from conftest import MODELS, call, check_call

MODEL = MODELS / "gpt2.onnx"
COMMON = (MODEL, "--gpus", 8)


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Two plan files of the same batch, the first on more data-parallel ranks."""
    folder = tmp_path_factory.mktemp("plans")
    for name, spec in (("a", "dp=4,tp=2,zero=1"), ("b", "dp=2,tp=1,pp=4,micro_batch=8,schedule=1f1b")):
        check_call("dtc", "plan", *COMMON, "--global-batch", 64, "--plan", spec, "--save-plan",
                   folder / f"{name}.yaml")
    return folder / "a.yaml", folder / "b.yaml"


def test_sides_are_what_planning_each_says(plans):
    answer = json.loads(check_call("dtc", "plan", *COMMON, "--compare", *plans, "--json").out)
    for side, file in zip("ab", plans):
        alone = json.loads(check_call("dtc", "plan", *COMMON, "--plan", file, "--json").out)
        assert answer[side].pop("name") == str(file)
        del answer[side]["planning_time_s"], alone["planning_time_s"]
        assert answer[side] == alone


def test_files_and_specs_are_of_the_same_calls(plans):
    """A plan file adds up the gradients of its microbatches; so does what it is compared with."""
    spec = "dp=2,tp=1,pp=4,micro_batch=8,schedule=1f1b"
    answer = json.loads(check_call("dtc", "plan", *COMMON, "--global-batch", 64, "--compare",
                                   plans[1], spec, "--json").out)
    assert answer["a"]["plan"] == answer["b"]["plan"] and answer["a"]["plan"]["num_microbatches"] > 1
    assert answer["a"]["predicted"] == answer["b"]["predicted"]
    assert answer["difference"]["step_time_s"] == 0


def test_differences_add_up(plans):
    answer = json.loads(check_call("dtc", "plan", *COMMON, "--compare", *plans, "--json").out)
    a, b = answer["a"]["predicted"], answer["b"]["predicted"]
    difference = answer["difference"]
    assert difference["step_time_s"] == pytest.approx(b["step_time_s"] - a["step_time_s"])
    assert difference["share"] == pytest.approx(b["step_time_s"] / a["step_time_s"] - 1)
    time = dict(difference["time"])
    exposed = time.pop("exposed_communication_s")
    assert sum(time.values()) + sum(exposed.values()) == pytest.approx(difference["step_time_s"])
    assert {"dp", "pp"} <= set(exposed) <= {"dp", "pp", "tp", "dp,tp"} and exposed["pp"] > 0
    assert time["bubble_s"] > 0
    assert sum(difference["memory"].values()) == b["peak_memory_bytes"] - a["peak_memory_bytes"]
    assert answer["winner"] == ("a" if a["step_time_s"] < b["step_time_s"] else "b")
    kinds = {(entry["kind"], entry["axis"]): entry for entry in answer["collectives"]}
    assert kinds["send", "pp"]["a"]["count"] == 0 < kinds["send", "pp"]["b"]["count"]


def test_the_table(plans):
    out = check_call("dtc", "plan", *COMMON, "--compare", *plans).out
    rows = {line.split("  ")[0]: line for line in out.splitlines() if not line.startswith(" ")}
    assert f"A: {plans[0]}" in out and f"B: {plans[1]}" in out
    assert "dp=4 tp=2 zero=1" in rows["plan"] and "pp=4" in rows["plan"]
    assert rows["fits"].split() == ["fits", "yes", "yes"]
    last = out.splitlines()[-1]
    assert last.startswith("A wins: B is ") and "pipeline bubble" in last
    swapped = check_call("dtc", "plan", *COMMON, "--compare", *reversed(plans)).out.splitlines()[-1]
    assert swapped.startswith("B wins: B is ") and "faster" in swapped


def test_a_plan_with_itself_is_a_draw(plans):
    answer = json.loads(check_call("dtc", "plan", *COMMON, "--compare", plans[0], plans[0], "--json").out)
    assert answer["winner"] is None and answer["collectives"] == []
    assert answer["difference"]["step_time_s"] == answer["difference"]["peak_memory_bytes"] == 0
    assert check_call("dtc", "plan", *COMMON, "--compare", plans[0], plans[0]).out.endswith(
        "A and B are equally fast.\n")


def test_what_fits_wins(plans, tmp_path):
    """However much faster the other would be."""
    small = tmp_path / "small.yaml"
    need = json.loads(check_call("dtc", "plan", *COMMON, "--plan", plans[1], "--json").out)
    capacity = need["predicted"]["peak_memory_bytes"] - 2**20
    small.write_text(f"node: dgx-h100\ndevice: {{base: h100, memory_gb: {capacity / 1e9}}}\n")
    answer = json.loads(check_call("dtc", "plan", *COMMON, "--cluster", small, "--compare", *reversed(plans),
                                   "--json").out)
    assert not answer["a"]["predicted"]["fits"] and answer["winner"] == "b"
    out = check_call("dtc", "plan", *COMMON, "--cluster", small, "--compare", *reversed(plans)).out
    assert "no, 1.00 MiB short" in out and "B wins: A doesn't fit" in out


def test_specs_can_be_compared_too():
    answer = json.loads(check_call("dtc", "plan", *COMMON, "--global-batch", 64, "--compare", "dp=8,zero=3",
                                   "tp=8", "--json").out)
    assert answer["a"]["plan"]["dp"] == answer["b"]["plan"]["tp"] == 8


@pytest.mark.parametrize("content, message", [
    (None, "cannot read the plan"),
    ("plan: {dp: 2\n", "yaml:2: "),
    ("plan: {dp: 8, sharding: 3}\n", "yaml:1: "),
])
def test_wrong_files(plans, tmp_path, content, message):
    wrong = tmp_path / "wrong.yaml"
    if content is not None:
        wrong.write_text(content)
    outcome = call("dtc", "plan", *COMMON, "--compare", plans[0], wrong, "--json")
    assert outcome.code == 3 and outcome.out == ""
    assert str(wrong) in outcome.error_line() and message in outcome.error_line()


@pytest.mark.parametrize("arguments, message", [
    (["--compare", "dp=8"], "--compare: expected 2 values"),
    (["--compare", "dp=8", "fastest"], "expected KEY=VALUE, got 'fastest'"),
    (["--compare", "dp=8", "tp=8", "--plan", "auto"], "--plan and --compare exclude each other"),
    (["--compare", "dp=8", "tp=8", "--save-plan", "x.yaml"], "--save-plan and --compare"),
])
def test_wrong_usage(arguments, message):
    outcome = call("dtc", "plan", *COMMON, *arguments)
    assert outcome.code == 2 and message in outcome.error_line()
