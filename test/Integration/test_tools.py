"""Plans for other programs (`dtc plan --for`): what is written, what is read back, and that neither changes a prediction."""

import json
import re
import sys

import pytest

from conftest import MODELS, ROOT, call, check_call

sys.path.append(str(ROOT / "bench" / "published"))
import presets  # noqa: E402

MODEL = MODELS / "llama.onnx"
EXPECTED = ROOT / "test" / "Integration" / "tool_settings"
#: A plan for each program; test/Integration/tool_settings has what is written for it.
PLANS = {
    "megatron-lm": "tp=2,pp=2,sp=on,zero=1,recompute=full,micro_batch=2",
    "megatron-core": "tp=2,pp=1,sp=off,zero=1,recompute=none,micro_batch=4",
    "nemo": "tp=2,pp=2,sp=on,zero=0,recompute=none,micro_batch=2",
    "torchtitan": "tp=2,pp=1,sp=on,zero=3,zero_group=4,recompute=full,micro_batch=2",
    "deepspeed": "zero=2,offload=optimizer,recompute=full,micro_batch=2",
    "fsdp": "zero=3,zero_group=8,recompute=none,micro_batch=2",
    "accelerate": "zero=2,zero_group=16,recompute=full,micro_batch=4",
    "litgpt": "micro_batch=2",
}
#: What their files don't say, and the user says beside them.
BESIDE = {"deepspeed": ["--plan", "recompute=full"], "fsdp": ["--plan", "recompute=none"],
          "accelerate": ["--plan", "micro_batch=4", "--global-batch", "64"]}


def plan(*arguments, code=0):
    outcome = call("dtc", "plan", MODEL, "--gpus", "16", *arguments)
    assert outcome.code == code, outcome.err
    return outcome


def answer(*arguments) -> dict:
    return json.loads(plan(*arguments, "--json").out)


@pytest.mark.parametrize("tool", PLANS)
def test_settings_are_written_and_read_back(tool, tmp_path):
    file = tmp_path / "settings"
    written = answer("--for", tool, "--precision", "bf16", "--global-batch", "64", "--plan", PLANS[tool],
                     "--save-settings", file)
    assert file.read_text() == (EXPECTED / f"{tool}.txt").read_text()
    assert written["for"]["program"] == tool and written["for"]["text"] == file.read_text()
    low, high = written["for"]["step_time_interval_s"]
    assert low < written["predicted"]["step_time_s"] < high
    read = answer("--for", tool, "--plan-from", file, *BESIDE.get(tool, []))
    assert read["plan"] == written["plan"]
    assert read["predicted"] == written["predicted"]
    assert read["better"]["predicted"]["step_time_s"] <= read["predicted"]["step_time_s"]


@pytest.mark.parametrize("tool, pins, message", [
    ("litgpt", "tp=2", "litgpt has tp=1 alone, got tp=2"),
    ("litgpt", "recompute=full", "litgpt has recompute=none alone, got recompute=full"),
    ("megatron-lm", "zero=3", "megatron-lm has zero=0|1 alone, got zero=3"),
    ("torchtitan", "pp=2,schedule=zb", "torchtitan has schedule=1f1b|interleaved|gpipe alone, got schedule=zb"),
    ("fsdp", "zero=1", "fsdp has zero=0|2|3 alone, got zero=1"),
])
def test_pins_that_a_program_cannot_run(tool, pins, message):
    assert message in plan("--for", tool, "--plan", pins, code=2).error_line()


@pytest.mark.parametrize("tool, pins, message", [
    ("megatron-lm", "tp=8,pp=1", "doesn't divide 4 heads"),
    ("megatron-lm", "pp=4", "2 layers can't be cut into 4 equal stages"),
])
def test_models_that_a_program_cannot_cut(tool, pins, message):
    assert message in plan("--for", tool, "--plan", pins, "--global-batch", "64", code=4).error_line()


def test_a_search_stays_within_the_program():
    """A device that holds little makes dtc's own plans mix levels and blocks; FSDP's can't."""
    found = answer("--for", "fsdp", "--global-batch", "64")["plan"]
    assert (found["tp"], found["pp"], found["zero_blocks"], found["recompute_blocks"]) == (1, 1, None, None)


@pytest.mark.parametrize("arguments, messages", [
    ("--tensor-model-parallel-size 3", ["the degrees make up 3 devices, which don't divide 16"]),
    ("--sequence-parallel --micro-batch-size 2",
     ["sequence parallelism needs tensor parallelism: --sequence-parallel"]),
    ("--micro-batch-size 3 --global-batch-size 64",
     ["the global batch of 64 is not a multiple of 16 data-parallel ranks times a microbatch of 3"]),
    ("--bf16 --fp16", ["--fp16 contradicts --bf16"]),
    ("--micro-batch-size 1 --overlap-param-gather", ["is of use with zero=1 alone, got 0"]),
    ("--recompute-granularity full --recompute-method block",
     ["--recompute-method block can't be planned, known are: uniform"]),
    ("--num-virtual-stages-per-pipeline-rank 2", ["several stages a rank need a pipeline"]),
    ("--micro-batch-size many", ["--micro-batch-size many: expected a number from 1"]),
    ("--lr 3e-4", ["no settings of Megatron-LM are in it"]),
])
def test_settings_that_contradict(arguments, messages):
    outcome = plan("--for", "megatron-lm", "--plan-from", arguments, code=3)
    for message in messages:
        assert message in outcome.err


def test_two_of_the_batch_sizes_give_the_third(tmp_path):
    file = tmp_path / "ds.json"
    sizes = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}
    for missing in sizes:
        file.write_text(json.dumps({k: v for k, v in sizes.items() if k != missing} | {"bf16": {"enabled": True}}))
        found = answer("--for", "deepspeed", "--plan-from", file)
        assert (found["plan"]["micro_batch"], found["plan"]["num_microbatches"]) == (2, 2)
    file.write_text(json.dumps(sizes | {"train_batch_size": 128}))
    assert "are 64, and the global batch is 128" in plan("--for", "deepspeed", "--plan-from", file, code=3).err


def test_degrees_that_divide_no_devices_are_told_with_their_file(tmp_path):
    file = tmp_path / "settings"
    file.write_text("--tensor-model-parallel-size 3 --micro-batch-size 1 --global-batch-size 64 --bf16")
    refused = plan("--for", "megatron-lm", "--plan-from", file, code=3)
    assert refused.error_line().endswith("/settings: the degrees make up 3 devices, which don't divide 16")


def test_what_would_be_better():
    outcome = plan("--for", "megatron-lm", "--plan-from",
                   "--tensor-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 64 --bf16 --lr 1 "
                   "--tensor-model-paralel-size 2")
    better = outcome.out[outcome.out.index("better"):]
    assert re.search(r"better     dp=.*step time .*% faster", better)
    assert "  - --tensor-model-parallel-size 4\n" in better and "  + --tensor-model-parallel-size 1\n" in better
    assert "--lr, --tensor-model-paralel-size (did you mean --tensor-model-parallel-size?)" in outcome.err


def test_headroom_keeps_memory_free():
    capacity = {share: answer("--for", "fsdp", "--memory-headroom", share)["stages"][0]["capacity_bytes"]
                for share in ("0%", "20%")}
    assert capacity["20%"] == pytest.approx(0.8 * capacity["0%"])
    assert "expected a share" in plan("--memory-headroom", "120%", code=2).error_line()


def test_litgpt_knows_pure_bf16(tmp_path):
    file = tmp_path / "settings"
    written = answer("--for", "litgpt", "--precision", "bf16-true", "--global-batch", 64, "--save-settings", file)
    assert "--precision bf16-true" in file.read_text()
    read = answer("--for", "litgpt", "--plan-from", file)
    assert (read["plan"], read["predicted"]) == (written["plan"], written["predicted"])
    assert read["conditions"]["precision"] == "bf16-true"
    refused = plan("--for", "megatron-lm", "--precision", "bf16-true", code=2)
    assert "Megatron-LM isn't planned for this --precision" in refused.error_line()


def test_underscores_of_another_program_stay():
    """Those of our own flags may be dashes."""
    refused = plan("--for", "litgpt", "--plan-from", "--devices 8 --num_nodes 3 --precision bf16-mixed", code=3)
    assert "the settings are for 24 devices, not for 16" in refused.error_line()


def test_flags_that_need_each_other():
    assert "needs --for" in plan("--plan-from", "--bf16", code=2).error_line()
    assert "did you mean megatron-lm" in plan("--for", "megatron-ml", code=2).error_line()
    assert "isn't planned for this --precision" in plan("--for", "litgpt", "--precision", "fp16", code=2).error_line()


SUITES = json.loads((ROOT / "bench" / "published" / "suites.json").read_text())
#: The software of each suite, switch by switch, as its predictions were validated.
SWITCHES = json.loads((EXPECTED / "suite_software.json").read_text())


def resolved(software: dict, precision: str) -> dict:
    facts = {key: value for key, value in software.items() if key != "unfused_rotary"}
    return {key: precision in value if isinstance(value, list) else value for key, value in facts.items()}


@pytest.mark.parametrize("suite", [name for name, suite in SUITES.items() if "preset" in suite["software"]])
def test_presets_predict_what_was_validated(suite, tmp_path):
    precision = "fp16" if "fp16" in SWITCHES[suite].get("half_gradients", []) else "bf16"
    found = []
    for software in (SUITES[suite]["software"], SWITCHES[suite]):
        cluster = tmp_path / "cluster.yaml"
        cluster.write_text(json.dumps({"node": "dgx-a100", "software": resolved(software, precision)}))
        outcome = check_call("dtc", "plan", MODEL, "--gpus", "16", "--cluster", cluster, "--precision", "bf16",
                             "--global-batch", "64", "--plan",
                             "tp=4,pp=2,sp=on,zero=1,micro_batch=2,recompute=none", "--json")
        found.append(json.loads(outcome.out)["predicted"])
    assert found[0] == found[1]


def test_intervals_are_those_of_the_validation():
    """As `validate.py` printed them for docs/Validation.md; the suites' runs there add up to theirs."""
    text = (ROOT / "docs" / "Validation.md").read_text()
    runs = {name: int(count) for name, count in re.findall(r"^\| ([a-z0-9-]+)(?: \*)? \| (\d+) \| [\d.]+ \|", text, re.M)}
    printed = {name: (int(count), float(share) / 100)
               for name, count, share in re.findall(r"^\| `([a-z-]+)` \| (\d+) \| ([\d.]+) \|", text, re.M)}
    programs = presets.load()
    assert set(programs) == set(PLANS) == set(printed)
    for name, preset in programs.items():
        assert (preset.runs, preset.error) == pytest.approx(printed[name]), name
        assert preset.runs == sum(runs[suite] for suite in preset.suites), name


def configured(tmp_path, text, *arguments, code=0):
    config = tmp_path / "train.yaml"
    config.write_text(text)
    outcome = call("dtc", "plan", "--config", config, *arguments)
    assert outcome.code == code, outcome.err
    return outcome


TRAIN = f"""model: {MODEL}
gpus: 16
optimizer: {{name: adamw, lr: 3e-4, betas: [0.9, 0.95], weight_decay: 0.1}}
precision: bf16-mixed
mesh_shape: [[8, 2], [fsdp, tp]]
sharding_strategy: FULL_SHARD
micro_batch: 2
accumulation: 4
"""


def test_a_configuration_as_people_write_it(tmp_path):
    facts = json.loads(configured(tmp_path, TRAIN, "--json").out)
    settings = {key: facts["plan"][key] for key in ("dp", "tp", "zero", "micro_batch", "num_microbatches")}
    assert settings == {"dp": 8, "tp": 2, "zero": 3, "micro_batch": 2, "num_microbatches": 4}
    assert facts["conditions"]["precision"] == "bf16" and facts["conditions"]["optimizer"] == "adamw"
    other = json.loads(configured(tmp_path, TRAIN.replace("micro_batch: 2", "global_batch: 64"), "--json").out)
    assert other["plan"] == facts["plan"] and other["predicted"] == facts["predicted"]
    hybrid = TRAIN.replace("[[8, 2], [fsdp, tp]]", '[[4, 2, 2], ["replicate", "fsdp", "tp"]]')
    found = json.loads(configured(tmp_path, hybrid.replace("FULL_SHARD", "HYBRID_SHARD"), "--json").out)["plan"]
    assert (found["dp"], found["zero"], found["zero_group"]) == (8, 3, 2)
    # Two nodes, where groups within a node would be faster: FULL_SHARD is over all ranks.
    whole = TRAIN.replace("mesh_shape: [[8, 2], [fsdp, tp]]\n", "").replace("accumulation: 4", "global_batch: 64")
    found = json.loads(configured(tmp_path, whole, "--json").out)["plan"]
    assert (found["dp"], found["zero"], found["zero_group"]) == (16, 3, 16)
    pure = json.loads(configured(tmp_path, TRAIN.replace("bf16-mixed", "bf16-true"), "--json").out)
    assert pure["conditions"]["precision"] == "bf16-true"
    typed = json.loads(configured(tmp_path, TRAIN, "--plan", "dp=16", "--micro-batch", "1", "--json").out)["plan"]
    assert (typed["dp"], typed["micro_batch"]) == (16, 1)


@pytest.mark.parametrize("old, new, message", [
    ("micro_batch: 2", "micro_batch: 2\nglobal_batch: 32", "micro_batch 2 x accumulation 4 x 8 data-parallel ranks aren't the global_batch of 32"),
    ("micro_batch: 2", "global_batch: 33", "no multiple of accumulation 4 x 8"),
    ("micro_batch: 2\n", "", "needs global_batch or micro_batch"),
    ("mesh_shape: [[8, 2], [fsdp, tp]]\n", "", "accumulation needs the number of data-parallel ranks"),
    ("bf16-mixed", "16-true", "no scale of the loss"),
    ("FULL_SHARD", "HYBRID_SHARD", "needs mesh_shape with the axes replicate and fsdp"),
    ("FULL_SHARD", "FULL", "train.yaml:6: unknown sharding_strategy: FULL"),
    ("[fsdp, tp]", "[fsdp, xp]", "unknown axis xp"),
    ("[[8, 2], [fsdp, tp]]", "[8, 2]", "expected sizes and names"),
    ("weight_decay", "wait_decay", "train.yaml:3: unknown key in optimizer: wait_decay"),
])
def test_configurations_that_contradict(old, new, message, tmp_path):
    assert message in configured(tmp_path, TRAIN.replace(old, new), code=3).error_line()
