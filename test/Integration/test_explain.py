"""`dtc plan --explain`: why this plan, in sentences and as JSON."""

import json

import pytest

from conftest import MODELS, call, check_call

COMMON = (MODELS / "gpt2.onnx", "--gpus", 8, "--global-batch", 64)


def plan(*arguments) -> dict:
    return json.loads(check_call("dtc", "plan", *COMMON, *arguments, "--json").out)


def test_nothing_else_changes():
    """The table and the rest of the JSON are those without --explain."""
    plain, explained = plan(), plan("--explain")
    explained.pop("explanation")
    del plain["planning_time_s"], explained["planning_time_s"]
    assert explained == plain
    text = check_call("dtc", "plan", *COMMON).out
    assert check_call("dtc", "plan", *COMMON, "--explain").out.startswith(text + "why this plan: ")


def test_runners_up_are_the_alternatives():
    answer = plan("--explain")
    step, explanation = answer["predicted"]["step_time_s"], answer["explanation"]
    assert [entry["plan"] for entry in explanation["runners_up"]] == [
        entry["plan"] for entry in answer["alternatives"]]
    for entry, alternative in zip(explanation["runners_up"], answer["alternatives"]):
        loss, predicted = entry["loss"], alternative["predicted"]
        assert loss["step_time_s"] == pytest.approx(predicted["step_time_s"] - step)
        assert loss["peak_memory_bytes"] == (
            predicted["peak_memory_bytes"] - answer["predicted"]["peak_memory_bytes"])
        time = dict(loss["time"])
        exposed = time.pop("exposed_communication_s")
        assert sum(time.values()) + sum(exposed.values()) == pytest.approx(loss["step_time_s"], abs=1e-9 * step)
        assert loss["fits"] and loss["short_bytes"] == 0
    time = dict(explanation["time"])
    assert sum(time.pop("exposed_communication_s").values()) + sum(time.values()) == pytest.approx(step)


def test_a_pin_costs_what_planning_without_it_saves():
    pinned, free = plan("--explain", "--plan", "tp=8"), plan()
    (pin,) = pinned["explanation"]["pins"]
    assert pin["pin"] == "tp=8" and not pin["free"]
    assert pin["instead"] == f"tp={free['plan']['tp']}" and pin["plan"] == free["plan"]
    cost = pinned["predicted"]["step_time_s"] / free["predicted"]["step_time_s"] - 1
    assert pin["cost"] == pytest.approx(cost)
    text = check_call("dtc", "plan", *COMMON, "--explain", "--plan", "tp=8").out
    assert f"tp=8 costs {100 * cost:.1f} % against {pin['instead']}" in text
    (same,) = plan("--explain", "--plan", f"tp={free['plan']['tp']}")["explanation"]["pins"]
    assert same["free"] and same["cost"] == 0 and same["plan"] is None


def test_changes_are_plans_pinned_that_way():
    # Of one microbatch, as what several add is in the calls of a plan that is planned again.
    answer = plan("--explain", "--plan", "dp=2,tp=2,cp=2,micro_batch=32")
    changes = {entry["setting"]: entry for entry in answer["explanation"]["changes"]}
    assert {"zero=1", "zero=2", "zero=3", "recompute=full"} <= set(changes)
    again = plan("--plan", "dp=2,tp=2,cp=2,micro_batch=32,zero=2,recompute=none")
    assert changes["zero=2"]["plan"] == again["plan"]
    assert changes["zero=2"]["loss"]["step_time_s"] == pytest.approx(
        again["predicted"]["step_time_s"] - answer["explanation"]["step_time_s"])
    assert changes["recompute=full"]["loss"]["time"]["recompute_s"] > 0


def test_what_does_not_fit_says_by_how_much(tmp_path):
    rest = "dp=8,micro_batch=8,zero=0"
    need = [plan("--plan", f"{rest},recompute={kind}")["predicted"]["peak_memory_bytes"]
            for kind in ("full", "none")]
    assert need[0] < need[1]
    small = tmp_path / "small.yaml"
    small.write_text(f"node: dgx-h100\ndevice: {{base: h100, memory_gb: {(need[0] + 4096) / 1e9}}}\n")
    answer = plan("--explain", "--cluster", small, "--plan", rest)
    assert answer["plan"]["recompute"] == "full"
    (change,) = [entry for entry in answer["explanation"]["changes"] if entry["setting"] == "recompute=none"]
    assert not change["loss"]["fits"] and 0 < change["loss"]["short_bytes"] <= need[1] - need[0]
    assert change["loss"]["text"].startswith("doesn't fit, ")


def test_on_the_processor_only_what_can_be_compiled():
    answer = json.loads(check_call("dtc", "plan", MODELS / "gpt2.onnx", "--devices", 4, "--global-batch", 8,
                                   "--explain", "--json").out)
    settings = [entry["setting"] for entry in answer["explanation"]["changes"]]
    assert settings and not any(word in " ".join(settings) for word in ("zero", "pp", "recompute", "schedule"))


def test_the_same_answer_every_time():
    answers = [plan("--explain", "--plan", "tp=2") for _ in range(2)]
    assert answers[0]["explanation"] == answers[1]["explanation"]


def test_a_plan_file_is_explained(tmp_path):
    file = tmp_path / "plan.yaml"
    plan("--plan", "dp=4,tp=2", "--save-plan", file)
    answer = json.loads(check_call("dtc", "plan", MODELS / "gpt2.onnx", "--gpus", 8, "--plan", file,
                                   "--explain", "--json").out)
    assert {"dp=4", "tp=2", "zero=0"} <= {pin["pin"] for pin in answer["explanation"]["pins"]}


def test_a_parameter_and_every_other_way():
    name = "m.transformer.h.0.mlp.c_fc.weight"
    common = ("--plan", "dp=2,tp=4", f"--explain={name}")
    subject = plan(*common)["explanation"]["subject"]
    assert (subject["name"], subject["kind"], subject["shape"]) == (name, "parameter", "64x256")
    chosen, *others = subject["ways"]
    assert chosen["chosen"] and chosen["cost"] == 0 and not any(way["chosen"] for way in others)
    assert sorted(way["sharding"] for way in subject["ways"]) == [
        '[{"tp"}, {}]', '[{}, {"tp"}]', "[{}, {}]"]
    assert all(way["cost"] is not None and way["fits"] for way in others)
    text = check_call("dtc", "plan", *COMMON, *common).out
    assert f"why {name} is sharded so: parameter of 64x256, {chosen['sharding']}" in text
    assert all(f"  {way['sharding']}: " in text for way in others)


def test_a_node_and_what_is_not_possible():
    """Two key-value heads can't be split over tp=8, and nothing splits the batch but dp."""
    common = (MODELS / "llama.onnx", "--gpus", 8, "--global-batch", 16, "--plan", "dp=1,tp=8")
    planned = json.loads(check_call("dtc", "plan", *common, "--explain=m.model.norm.weight", "--json").out)
    assert planned["explanation"]["subject"]["kind"] == "parameter"
    subject = json.loads(check_call("dtc", "plan", *common, "--explain=node_linear_1", "--json").out)[
        "explanation"]["subject"]
    assert subject["kind"] == "dtc.contract"
    refusals = [way["refusal"] for way in subject["ways"] if way["refusal"]]
    assert any("is the batch, which data parallelism splits" in refusal for refusal in refusals), refusals
    assert any(way["cost"] is not None for way in subject["ways"][1:])


def test_unknown_names():
    outcome = call("dtc", "plan", *COMMON, "--explain=m.transformer.h.0.mlp.c_fd.weight", "--json")
    assert outcome.code == 2 and outcome.out == ""
    assert "(did you mean 'm.transformer.h.0.mlp.c_fc.weight'?)" in outcome.error_line()
    assert "named 'zzz'" in call("dtc", "plan", *COMMON, "--explain=zzz").error_line()


@pytest.mark.parametrize("arguments, code, message", [
    (["--explain", "--compare", "tp=8", "dp=8"], 2, "--explain and --compare exclude each other"),
    (["--explain", "--plan", "tp=3"], 2, "tp"),
    (["--explain", "--plan", "plan.yaml"], 3, "plan.yaml: cannot read the plan"),
])
def test_wrong_usage(tmp_path, arguments, code, message):
    outcome = call("dtc", "plan", *COMMON, *arguments, "--json", cwd=tmp_path)
    assert outcome.code == code and message in outcome.error_line() and outcome.out == ""
