"""Clusters with several device types: each stage has the memory and the mesh of its own."""

import json
import math
import re

import pytest

import llama_graph
from conftest import call, check_call

CLUSTER = """\
name: mixed
groups:
  - {node: dgx-h100, nodes: 1}
  - {node: a10g, devices_per_node: 8, nodes: 1}
inter_node: {bandwidth_gbs: 25, latency_us: 10}
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "mixed.yaml").write_text(CLUSTER)
    llama_graph.write(folder / "llama.onnx", llama_graph.Llama(12, 8192, 64, 64, 28672, 50304, 4096))
    return [folder / "llama.onnx", "--gpus", 16, "--cluster", folder / "mixed.yaml",
            "--global-batch", 32, "--precision", "bf16"]


@pytest.fixture(scope="module")
def saved(job, tmp_path_factory):
    """The plan that is told of, as JSON and as a file."""
    file = tmp_path_factory.mktemp("plan") / "plan.yaml"
    report = file.with_suffix(".html")
    told = check_call("dtc", "plan", *job, "--json", "--save-plan", file, "--report", report, "--explain")
    return json.loads(told.out), file, report


def test_stages_say_what_is_theirs(saved):
    told, _, _ = saved
    groups = told["plan"]["stage_groups"]
    assert len(groups) == 2 and sum(group["pp"] for group in groups) == told["plan"]["pp"]
    assert groups[0]["tp"] != groups[1]["tp"]
    assert len({group["dp"] * group["micro_batch"] for group in groups}) == 1
    for key in ("dp", "tp", "micro_batch"):
        assert told["plan"][key] == groups[0][key]
    devices = set()
    for index, stage in enumerate(told["stages"]):
        group = groups[0 if index % told["plan"]["pp"] < groups[0]["pp"] else 1]
        assert {key: stage[key] for key in ("dp", "tp", "micro_batch")} == \
            {key: group[key] for key in ("dp", "tp", "micro_batch")}
        assert len(stage["devices"]) == stage["dp"] * stage["tp"]
        # 80 and 24 GB less what the data sheets' units hide.
        assert (stage["capacity_bytes"] > 79e9) == (max(stage["devices"]) < 8)
        assert stage["peak_memory_bytes"] <= stage["capacity_bytes"]
        devices |= set(stage["devices"])
    assert devices == set(range(16)) and told["predicted"]["fits"]
    same = [change for change in told["explanation"]["changes"]
            if change["setting"] == "the same mesh for all stages"]
    assert len(same) == 1 and same[0]["loss"]["share"] > 0


def test_saved_plans_are_planned_again(job, saved):
    told, file, _ = saved
    again = json.loads(check_call("dtc", "plan", *job, "--plan", file, "--json").out)
    assert again["plan"] == told["plan"]
    # A file is about calls as they will be: the largest gradient lies beside its sum.
    for stage, expected in zip(again["stages"], told["stages"], strict=True):
        assert stage["forward_s"] == pytest.approx(expected["forward_s"])
        for key in ("devices", "parameters", "dp", "tp", "sp", "micro_batch"):
            assert stage[key] == expected[key], key
    assert again["predicted"]["step_time_s"] == pytest.approx(told["predicted"]["step_time_s"])
    assert again["predicted"]["peak_memory_bytes"] == pytest.approx(told["predicted"]["peak_memory_bytes"], rel=0.02)
    text = check_call("dtc", "plan", *job, "--plan", file).out
    assert "8 x h100 + 8 x a10g" in text and "parameters and buffers of pipeline rank" in text


def test_names_are_explained_in_the_mesh_of_their_stages(job, saved):
    told, file, _ = saved
    named = call("dtc", "plan", *job, "--plan", file, "--explain=nothing.such")
    assert named.code == 2 and "no tensor or node named 'nothing.such'" in named.error_line()
    for name, group in (("layers.0.up_proj.weight", 0), ("logits.weight", 1)):
        tp = told["plan"]["stage_groups"][group]["tp"]
        answer = json.loads(check_call("dtc", "plan", *job, "--plan", file, f"--explain={name}", "--json").out)
        subject = answer["explanation"]["subject"]
        assert subject["name"] == name and subject["stage_group"] == group and subject["other_groups"] == []
        assert (len(subject["ways"]) > 1) == (tp > 1)
        assert all(way["cost"] is not None for way in subject["ways"])
        text = check_call("dtc", "plan", *job, "--plan", file, f"--explain={name}").out
        assert f"why {name} is sharded so on pipeline rank" in text and f"(tp={tp}): parameter of" in text


def edits(text: str):
    """Plan files that are wrong in one place each, with what is said of them."""
    own, others = text.index("stage_groups:"), text.index("other_groups:")
    second = text.index("- {", text.index("- {", own) + 1)
    samples = int(re.search(r"micro_batch: (\d+)", text[second:]).group(1))
    devices = re.findall(r"devices: \[([^]]*)\]", text)

    def swap(before: str, after: str, start: int = 0) -> str:
        at = text.index(before, start)
        return text[:at] + after + text[at + len(before):]

    yield swap("stage_groups:", "stage_group:"), "unknown key in plan: stage_group (did you mean stage_groups?)"
    yield swap("other_groups:", "other_group:"), "unknown key in the plan: other_group"
    yield swap("pp: 1", "pp: 0", own), "pp is too small: 0"
    yield swap("pp: 1", "pp: one", own), "wrong value for pp: one"
    yield swap("pp: 1", "pp: 2", own), "made for another number of devices than 16"
    yield swap("micro_batch: ", "micro_batches: ", second), "stage_groups lacks the key: micro_batch"
    yield swap(f"micro_batch: {samples}", f"micro_batch: {2 * samples}", second), \
        "stage groups differ in the samples of a microbatch"
    yield swap(f"micro_batch: {samples}", f"micro_batch: {10**30}", second), "wrong value for micro_batch"
    yield swap("sp: ", "sp: not_", second), "sp must be on or off: not_"
    yield swap("  dp: ", "  dp: 1"), "aren't those of its first stage group"
    yield swap("  zero: ", "  zero: 9"), "zero must be 0 to 3: 9"
    yield swap(f"[{devices[0]}]", f"[{devices[0]}, 0]"), "stage 0 names"
    yield swap(f"[{devices[0]}]", f"[{', '.join(reversed(devices[0].split(', ')))}]"), \
        "stage 0 isn't on neighbouring devices"
    taken = range(16 - len(devices[0].split(", ")), 16)
    yield swap(f"[{devices[0]}]", f"[{', '.join(map(str, taken))}]"), "names a device that is taken or none"
    sizes = [int(size) for size in re.findall(r"size: (\d+)", text[others:text.index("arguments:", others)])]
    yield swap(f"size: {sizes[0]}", "size: 3", others), f"devices, its mesh has {3 * math.prod(sizes[1:])}"
    yield swap("degree: ", "degree: x", others), "belongs to no degree of a stage: x"
    yield swap("mesh:", "meshes:", others), "other_groups lacks the key: mesh"
    yield swap("{parameter: ", "{parameter: no.", others), "the model has no parameter: no."
    yield swap("op: dtc", "op: dtd", others), "the plan is of another model: dtd"
    yield swap("factors: [", "factors: [[], ", others), "factors, not"
    yield text[:others], "plan has 2 stage groups, but layouts for 1"


def test_broken_groups_are_refused(job, saved, tmp_path):
    _, file, _ = saved
    broken = tmp_path / "broken.yaml"
    for text, message in edits(file.read_text()):
        broken.write_text(text)
        refused = call("dtc", "plan", *job, "--plan", broken)
        assert refused.code in (2, 3), (message, refused.err)
        assert message in refused.error_line(), (message, refused.err)
        assert str(broken) in refused.error_line() and refused.err.count("\n") == 1


def test_the_report_shows_each_part(saved):
    told, _, report = saved
    page = report.read_text()
    assert "8 x " in page and "h100" in page and "a10g" in page
    groups = told["plan"]["stage_groups"]
    assert "pipeline rank" in page and f"tp={groups[1]['tp']}" in page
    # What each node is, whose links are told of, what a microbatch and the peak are.
    plain = re.sub("<[^>]*>", "", page)
    assert "node 0 of h100" in plain and "node 1 of a10g" in plain
    first, last = groups[0]["pp"], told["plan"]["pp"]
    assert re.search(rf"[dt]p=\d+, pipeline ranks? {first}(-{last - 1})?(?!\d)", plain)
    samples = groups[0]["dp"] * groups[0]["micro_batch"]
    assert re.search(rf"microbatch(es)? of {samples} samples?, which the copies of a stage share", plain)
    assert "of the mean peak of all" in plain
    assert f"{len(told['stages'][0]['devices'])} x h100" in plain
    assert f"{len(told['stages'][-1]['devices'])} x a10g" in plain
