"""Collectives that are started before their results are needed: carried out at their start, when they are waited
for, or on another thread, with the same bits."""

import json
import math
import re

import numpy
import pytest

from conftest import MODELS, case, check_call, part


def compiled(tmp_path, devices, plan, *flags):
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", devices, "--target", "cpu", "--cluster", "cpu",
               "--plan", plan, "--loss", "cross_entropy",
               *([] if "--global-batch" in flags else ["--global-batch", 8]), *flags, "-o", tmp_path / "m.dtc")
    return tmp_path / "m.dtc"


def run(artifact, moment, monkeypatch, *flags):
    monkeypatch.setenv("DTC_COLLECTIVES", moment)
    log, weights = (artifact.with_suffix(suffix) for suffix in (".jsonl", ".safetensors"))
    check_call("dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", 4, "--log", log, "--save-weights", weights,
               *flags)
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    return [(step["loss"], step["grad_norm"]) for step in steps], weights.read_bytes()


@pytest.mark.parametrize("devices,plan", part([
    (2, "dp=2,zero=1,micro_batch=2"),
    (2, "dp=2,zero=2,micro_batch=2"),
    (4, "dp=4,zero=1,zero_group=2,micro_batch=1"),
    (4, "dp=2,tp=2,zero=3,micro_batch=2"),
    (4, "pp=2,dp=2,zero=3,schedule=1f1b,micro_batch=1"),
    (2, "tp=2"),
    (2, "dp=2,zero=0"),
    (4, "dp=2,tp=2,zero=0,micro_batch=1"),
    (4, "pp=2,dp=2,zero=0,schedule=zb,micro_batch=1"),
    (4, "pp=2,dp=2,zero=1,schedule=zb,micro_batch=1"),
]))
def test_moments_agree_bitwise(tmp_path, monkeypatch, devices, plan):
    artifact = compiled(tmp_path, devices, plan, "--clip-grad-norm", 0.5)
    expected = run(artifact, "start", monkeypatch)
    for moment, flags in [("wait", []), ("thread", []), ("thread", ["--processes"])]:
        assert run(artifact, moment, monkeypatch, *flags) == expected, (moment, flags)


def inspected(artifact):
    return json.loads(check_call("dtc", "inspect", artifact, "--json").out)


def test_blocks_are_gathered_and_scattered_together(tmp_path):
    """Embeddings, two layers and the last norm: a gather of each in both directions, one scatter each."""
    facts = inspected(compiled(tmp_path, 2, "dp=2,zero=3,micro_batch=4"))
    assert facts["collectives"]["all_gather"] == 8
    assert facts["collectives"]["reduce_scatter"] == 4
    # Parameters arrive while another block computes, but for the first and the tied table that the way back begins with.
    gathered = facts["in_flight"]["all_gather"]
    assert gathered["calls"] >= 5
    whole = sum(4 * math.prod(parameter["shape"]) for parameter in facts["parameters"])
    assert whole < gathered["bytes"] < 2 * whole
    assert facts["in_flight"]["reduce_scatter"]["calls"] >= 3
    counts = inspected(compiled(tmp_path, 2, "dp=2,zero=1"))["collectives"]
    assert counts["all_gather"] == counts["reduce_scatter"] == 1


@pytest.mark.parametrize("devices,plan,share", [
    (2, "dp=2,zero=0", 1 / 2), (4, "dp=2,tp=2,zero=0,micro_batch=2", 1 / 4),
    (4, "pp=2,dp=2,zero=0,schedule=1f1b,micro_batch=1", 1 / 5)])
def test_gradients_are_summed_beside_the_backward_pass(tmp_path, devices, plan, share):
    """All but the last bucket, which is a quarter of what a rank has or more: embeddings come last."""
    facts = inspected(compiled(tmp_path, devices, plan))
    whole = sum(4 * math.prod(parameter["shape"]) for parameter in facts["parameters"])
    assert facts["in_flight"]["all_reduce"]["bytes"] > share * whole


@pytest.mark.parametrize("devices,plan", [
    case(True, 2, "dp=2,zero=1"), case(False, 2, "dp=2,zero=1,micro_batch=1"), case(True, 4, "dp=4,zero=1,zero_group=2")])
def test_what_the_update_divides_is_scattered_beside_the_backward_pass(trainer, devices, plan):
    """All but the last of two buckets of some 25 MB, with the bits of plain dp. Groups of ranks add up in another order."""
    def train(spec):
        return trainer.train("resnet18", "resnet18", "--optimizer", "sgd", "--init", devices=devices, plan=spec, steps=3)

    stored = train(plan)
    facts = inspected(stored.artifact)
    whole = sum(4 * math.prod(parameter["shape"]) for parameter in facts["parameters"])
    scattered = facts["in_flight"]["reduce_scatter"]
    assert scattered["calls"] >= 1 and scattered["bytes"] > whole / 3
    plain = train(re.sub("zero=1(,zero_group=2)?", "zero=0", plan))
    for name, weight in plain.weights.items():
        if "group" in plan:
            assert numpy.allclose(weight, stored.weights[name], rtol=1e-3, atol=1e-5), name
        else:
            assert weight.tobytes() == stored.weights[name].tobytes(), name


def test_messages_are_sent_beside_computation(tmp_path):
    """All but the last of a direction, which nothing is left to be computed beside."""
    facts = inspected(compiled(tmp_path, 2, "pp=2,dp=1,schedule=1f1b,micro_batch=1"))
    sent = {row["role"]: row for row in facts["exchanges"] if row["kind"] == "send"}
    received = {row["role"]: row for row in facts["exchanges"] if row["kind"] == "recv"}
    for role in (0, 1):
        assert (sent[role]["axis"], sent[role]["calls"], sent[role]["bytes"]) == ("pp", 8, 32 * 64 * 4)
        assert received[1 - role]["calls"] == 8 and sent[role]["beside_computation"] >= 7
    assert facts["in_flight"]["send"]["bytes"] >= 7 * 32 * 64 * 4
    offloaded = inspected(compiled(tmp_path, 1, "dp=1,offload=optimizer"))
    copied = sum(row["calls"] * row["bytes"] for row in offloaded["exchanges"] if row["kind"] == "copy" and row["axis"] == "host")
    whole = sum(4 * math.prod(parameter["shape"]) for parameter in offloaded["parameters"])
    assert copied == pytest.approx(2 * 2 * whole, rel=0.01)  # two states, to the device and back


def totals(rows: list, count: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Calls and bytes by kind and axis. How many targets count is an exchange of eight bytes, which plans leave out."""
    found = {}
    for row in rows:
        if row["bytes"] > 8:
            calls, moved = found.get((row["kind"], row["axis"]), (0, 0))
            found[row["kind"], row["axis"]] = (calls + row[count], moved + row[count] * row["bytes"])
    return found


@pytest.mark.parametrize("gpus,plan", [(16, "dp=8,tp=2,micro_batch=2"), (16, "dp=4,tp=4,sp=on,zero=3,micro_batch=2"),
                                       (16, "dp=4,pp=2,tp=2,sp=on,zero=1,micro_batch=2,schedule=1f1b"),
                                       (64, "dp=16,tp=4,sp=on,zero=2,micro_batch=2"), (64, "dp=8,pp=2,tp=4,sp=on,micro_batch=2"),
                                       (64, "dp=8,pp=2,tp=4,sp=on,micro_batch=2,schedule=1f1b")])
def test_what_many_gpus_exchange_is_what_the_plan_says(tmp_path, gpus, plan):
    """By kind and axis, in calls and bytes, of the rank that exchanges longest. Sums of gradients go in other buckets than the plan
    counts, and the numbers of a step, 16 bytes, over stages, too. Where stages have equally much, no other rank exchanges more."""
    flags = [MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--gpus", gpus, "--global-batch", 4 * gpus, "--plan", plan]
    check_call("dtc", "compile", *flags, "-o", tmp_path / "m.dtc", "--no-verify")
    facts = inspected(tmp_path / "m.dtc")
    answer = json.loads(check_call("dtc", "plan", *flags, "--json").out)
    planned = totals(answer["collectives"], "count")
    roles = [totals([row for row in facts["exchanges"] if row["role"] == role], "calls")
             for role in {row["role"] for row in facts["exchanges"]}]
    kept = {key: row for key, row in planned.items() if row[1] > 16}

    def exchanges(role, key):
        (calls, moved), (own, found) = kept[key], role.get(key, (0, 0))
        return found == pytest.approx(moved, rel=0.05) and (key[0] == "all_reduce" or own == calls)

    assert any(all(exchanges(role, key) for key in kept) for role in roles), (kept, roles)
    if answer["plan"]["schedule"] != "interleaved":
        for key, (_, moved) in kept.items():
            assert max(role.get(key, (0, 0))[1] for role in roles) == pytest.approx(moved, rel=0.05), (key, roles)
    assert {key for role in roles for key in role} <= {*planned, ("recv", "pp"), ("all_reduce", "dp,tp,pp"), ("all_reduce", "pp")}


def test_code_does_not_grow_with_microbatches(tmp_path):
    """The last one has a function of its own, with the kernels of the others."""
    facts = [inspected(compiled(tmp_path, 2, "dp=2,zero=0,micro_batch=2", "--global-batch", batch)) for batch in (8, 24)]
    for key in ("kernels", "in_flight"):
        assert facts[0][key] == facts[1][key], key
