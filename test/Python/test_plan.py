"""dtc.plan says what the command line says."""

import gc
import html.parser
import json
import subprocess
import threading
import warnings

import numpy
import pytest
from package import MODELS, ROOT, command

import dtc

GPT2 = MODELS / "gpt2.onnx"


@pytest.fixture(scope="module")
def plan() -> dtc.Plan:
    return dtc.plan(GPT2, gpus=4, cluster="dgx-h100", global_batch=8, precision="bf16")


def test_the_plan_is_that_of_the_command_line(plan, tmp_path):
    answer = command("dtc", "plan", GPT2, "--gpus", 4, "--cluster", "dgx-h100", "--global-batch", 8, "--precision", "bf16",
                     "--save-plan", tmp_path / "plan.yaml", "--json")
    expected = json.loads(answer.stdout)
    del expected["planning_time_s"]
    assert {key: value for key, value in plan.facts.items() if key != "planning_time_s"} == expected
    plan.save(tmp_path / "saved.yaml")
    assert (tmp_path / "saved.yaml").read_text() == (tmp_path / "plan.yaml").read_text()


def test_a_plan_prints_as_a_table_and_shows_as_a_page(plan, tmp_path):
    assert repr(plan) == str(plan)
    assert "gpt2.onnx: 136960 parameters, global batch 8, 4 x h100" in str(plan)
    plan.report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    found = []

    class Frames(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.extend(value for name, value in attributes if tag == "iframe" and name == "srcdoc")

    Frames().feed(plan._repr_html_())
    assert found == [page]


def test_stages_and_memory_have_what_the_facts_have(plan):
    assert len(plan.stages) == plan.settings["pp"] == len(plan.facts["stages"])
    assert sum(stage.parameters for stage in plan.stages) >= plan.facts["model"]["parameters"] // plan.settings["tp"]
    parts = plan.facts["predicted"]["memory"]
    assert plan.memory.total == sum(parts.values())
    assert plan.memory.activations == parts["activations"]
    assert plan.fits and plan.memory.total < plan.memory.capacity
    assert 0 < plan.step_time < 1


def test_a_setting_of_training_without_training_is_refused():
    with pytest.raises(dtc.UsageError, match="zero=3 is for training, not for --loss none"):
        dtc.plan(GPT2, gpus=4, cluster="dgx-h100", global_batch=8, loss="none", plan="zero=3")


def test_settings_of_other_programs_are_those_of_the_command_line(plan, tmp_path):
    settings = plan.settings("megatron-core")
    command("dtc", "plan", GPT2, "--gpus", 4, "--cluster", "dgx-h100", "--global-batch", 8, "--precision", "bf16",
            "--for", "megatron-core", "--save-settings", tmp_path / "expected.yaml")
    assert settings == (tmp_path / "expected.yaml").read_text()
    settings.save(tmp_path / "settings.yaml")
    assert (tmp_path / "settings.yaml").read_text() == settings
    assert settings.facts["program"] == "megatron-core" and settings.plan.settings("megatron-core") == settings
    with pytest.raises(dtc.UsageError, match="unknown program"):
        plan.settings("nowhere")


def test_explanations_are_of_the_plan_of_a_setting_or_of_a_parameter(plan):
    whole = plan.explain()
    assert whole.startswith("why this plan: dp=")
    one = plan.explain("sp")
    assert one.facts["changes"] and all("sp=" in change["setting"] for change in one.facts["changes"])
    # Where no runner-up has the setting, its own words say so.
    assert set(one.splitlines()) - set(whole.splitlines()) <= {"  None: no other plan fits and is nearly as fast."}
    assert len(one.splitlines()) < len(whole.splitlines())
    weight = plan.explain("m.lm_head.weight")
    assert weight.facts["name"] == "m.lm_head.weight" and "is sharded so" in weight
    with pytest.raises(dtc.Error, match="nothing_such"):
        plan.explain("nothing_such")


def test_two_plans_are_compared(plan):
    other = dtc.plan(GPT2, gpus=4, cluster="dgx-h100", global_batch=8, precision="bf16", plan={"dp": 4})
    assert other.settings["dp"] == 4
    text = plan.compare(other)
    assert "dp=4" in text and "slower" in text + other.compare(plan)
    with pytest.raises(dtc.UsageError, match="plans of two models can't be compared"):
        plan.compare(dtc.plan(MODELS / "mlp.onnx", gpus=4))
    with pytest.raises(dtc.UsageError, match="expected what dtc.plan returns, got str"):
        plan.compare("plan.yaml")


@pytest.mark.parametrize("optimizer, name", [("adamw", "str"), ({"lr": 1e-3}, "dict"), (threading.Event(), "threading.Event")])
def test_an_optimizer_is_one_of_ours(optimizer, name):
    """As on the command line, or as PyTorch has them: none says what it is called with here. Another AdamW has its module's name."""
    for call in (dtc.plan, dtc.parallelize):
        with pytest.raises(dtc.UsageError, match=f"expected dtc.SGD, dtc.Adam or dtc.AdamW, got {name}"):
            call(GPT2, devices=2, loss="cross_entropy", optimizer=optimizer)
    with pytest.raises(dtc.UsageError, match="learning_rate: expected dtc.LearningRate, got float"):
        dtc.plan(GPT2, devices=2, learning_rate=1e-3)


def test_a_saved_plan_is_planned_again(plan, tmp_path):
    plan.save(tmp_path / "plan.yaml")
    again = dtc.plan(GPT2, gpus=4, cluster="dgx-h100", precision="bf16", plan=tmp_path / "plan.yaml")
    assert again.settings == plan.settings
    (tmp_path / "link.yaml").symlink_to("plan.yaml")
    for save in (plan.save, plan.report, plan.settings("torchtitan").save):
        with pytest.raises(dtc.Error, match="none/file: cannot create"):
            save(tmp_path / "none" / "file")
    plan.save(tmp_path / "link.yaml")
    assert (tmp_path / "link.yaml").is_symlink() and sorted(file.name for file in tmp_path.iterdir()) == ["link.yaml", "plan.yaml"]


def test_a_model_may_be_the_bytes_of_a_file():
    plan = dtc.plan(GPT2.read_bytes(), gpus=4)
    assert plan.facts["plan"] == dtc.plan(GPT2, gpus=4).facts["plan"]
    assert plan.explain("dp").facts["step_time_s"] > 0  # reads the file again


def test_example_inputs_give_the_shapes_of_a_file():
    tokens = numpy.zeros((4, 32), dtype="int64")
    plan = dtc.plan(MODELS / "gpt2_dyn.onnx", {"input_ids": tokens}, gpus=2)
    same = dtc.plan(MODELS / "gpt2_dyn.onnx", shapes={"input_ids": (4, 32)}, gpus=2)
    assert plan.facts["predicted"] == same.facts["predicted"]
    with pytest.raises(dtc.InputError, match="has the fixed size 32 in dimension 1, not 16"):
        dtc.plan(MODELS / "gpt2_dyn.onnx", {"input_ids": tokens[:, :16]}, gpus=2)
    with pytest.raises(dtc.UsageError, match="a mapping"):
        dtc.plan(GPT2, (tokens,), gpus=2)


@pytest.mark.parametrize("asked, kind, code", [
    ({"gpus": 0}, dtc.UsageError, 2),
    ({"gpus": 4, "precision": "fp7"}, dtc.UsageError, 2),
    ({"gpus": 4, "cluster": "nowhere"}, dtc.UsageError, 2),
    ({"gpus": 4, "plan": "tp=3,dp=2"}, dtc.Error, None),
    ({"gpus": 4, "flags": ["--nonsense"]}, dtc.UsageError, 2),
])
def test_errors_have_the_text_of_the_command_line(asked, kind, code):
    flags = [f"--{name}={value}" for name, value in asked.items() if name != "flags"] + list(asked.get("flags", ()))
    refused = command("dtc", "plan", GPT2, *flags)
    with pytest.raises(kind) as raised:
        dtc.plan(GPT2, **asked)
    assert refused.stderr == f"dtc: error: {raised.value}\n"
    assert raised.value.exit_code == refused.returncode
    assert code in (None, refused.returncode)


def test_a_missing_model_is_an_input_error(tmp_path):
    with pytest.raises(dtc.InputError, match="none.onnx"):
        dtc.plan(tmp_path / "none.onnx", gpus=4)


def test_what_is_sound_but_not_taken_has_its_exception(tmp_path):
    model = tmp_path / "m.onnx"
    with open(ROOT / "test" / "Import" / "Inputs" / "unsupported.txtpb", "rb") as text:
        model.write_bytes(subprocess.run(["protoc", "--encode=onnx.ModelProto", "-I", ROOT / "third_party" / "onnx",
                                          "onnx-ml.proto"], stdin=text, capture_output=True, check=True).stdout)
    with pytest.raises(dtc.UnsupportedError, match=r"NonZero \(first\), com\.vendor\.FusedThing \(second\)$") as raised:
        dtc.plan(model, gpus=1)
    assert raised.value.exit_code == 3
    model.write_bytes(model.read_bytes()[:-9])
    with pytest.raises(dtc.InputError) as raised:
        dtc.plan(model, gpus=1)
    assert not isinstance(raised.value, dtc.UnsupportedError)


def test_where_nothing_fits_there_is_a_plan_error(tmp_path):
    small = dtc.Cluster(device={"base": "h100", "memory_gb": 0.5}, devices_per_node=8,
                        intra_node={"bandwidth_gbs": 300, "latency_us": 5})
    with pytest.raises(dtc.PlanError, match="no plan fits"):
        dtc.plan(GPT2, gpus=1, cluster=small)


def test_warnings_are_pythons():
    gc.collect()  # else what an earlier test left unclosed may warn in between
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dtc.plan(GPT2, gpus=4, cluster="v100", precision="bf16", plan={"dp": 4})
    assert [each.category for each in caught] == [dtc.DtcWarning]
    assert caught[0].filename == __file__


def test_other_things_are_no_models():
    with pytest.raises(dtc.UsageError, match="a model is a path"):
        dtc.plan(17, gpus=4)


def test_threads_plan_side_by_side():
    """Each has its own errors and its own plan, and another thread runs meanwhile."""
    plans, errors = {}, {}

    def work(number: int) -> None:
        try:
            plans[number] = dtc.plan(MODELS / ("gpt2.onnx" if number % 2 else "none.onnx"), gpus=number + 1).facts
        except dtc.Error as error:
            errors[number] = str(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(plans) == [1, 3] and sorted(errors) == [0, 2]
    assert all("none.onnx" in text and "\n" not in text for text in errors.values())
    for number, facts in plans.items():
        assert facts["plan"] == dtc.plan(GPT2, gpus=number + 1).facts["plan"]
