"""The symbolic replay of packaged programs (dtc/Replay): it accepts what dtc compiles, and finds faults planted into it.

`dtc compile` replays every program before it writes the artifact, so each test that compiles is one for false alarms too.
"""

import json
import subprocess

import pytest

from conftest import BIN, MODELS, check_call

REPLAY = BIN.parent / "test" / "Unit" / "replay-artifacts"

# Model, devices, plan, further flags. A rank's microbatch of one sample: 8 to 2 microbatches.
PROGRAMS = [
    ("mlp", 1, "dp=1", []),
    ("mlp", 1, "micro_batch=1", ["--optimizer", "sgd", "--momentum", 0.9]),
    ("gpt2", 1, "micro_batch=2", []),
    ("gpt2", 4, "dp=2,tp=2,micro_batch=1", ["--precision", "bf16", "--clip-grad-norm", 1]),
    ("llama", 2, "tp=2,micro_batch=4", []),
    ("gpt2", 1, "micro_batch=4,recompute=full", []),
    ("resnet_tiny", 2, "dp=2,micro_batch=2", []),
    ("t5", 4, "dp=2,tp=2", []),
    ("moe", 4, "ep=4,micro_batch=1", []),
    ("gpt2", 2, "tp=2,micro_batch=2", ["--loss", "none"]),
    ("mlp", 2, "dp=2,zero=1", []),
    ("gpt2", 4, "dp=2,tp=2,zero=1,micro_batch=1", []),
    ("gpt2", 4, "dp=2,tp=2,zero=3,micro_batch=1", ["--clip-grad-norm", 1]),
    ("gpt2", 2, "pp=2,dp=1,micro_batch=2,schedule=1f1b", []),
    ("gpt2", 2, "dp=2,micro_batch=2,offload=optimizer", ["--target", "cuda", "--precision", "bf16"]),  # attention, epilogues, the host
    ("convnext", 1, "dp=1,micro_batch=2", ["--target", "cuda"]),  # convolutions that add to sums
]


@pytest.mark.parametrize("model,devices,plan,flags", PROGRAMS,
                         ids=[f"{row[0]}-{row[2]}" for row in PROGRAMS])
def test_faults_are_found(tmp_path, model, devices, plan, flags):
    """Of each kind up to 25 are planted, spread over all places."""
    artifact = tmp_path / "model.dtc"
    loss = [] if "--loss" in flags else ["--loss", "cross_entropy"]
    check_call("dtc", "compile", MODELS / f"{model}.onnx", "--devices", devices, "--plan", plan,
               "--global-batch", 8, *loss, *flags, "-o", artifact)
    done = subprocess.run([REPLAY, "25", artifact], capture_output=True, text=True, timeout=300)
    result = json.loads(done.stdout)
    assert result["violation"] == ""
    assert result["missed"] == []
    assert done.returncode == 0, done.stderr
    kinds = {"dropped call", "doubled call", "dropped instruction", "swapped instructions",
             "wrong address read", "wrong address written", "swapped operands", "early reuse",
             "moved binding", "stale value read"}
    if "none" not in flags:
        kinds |= {"swapped calls", "left out of evaluations"}
    if "micro_batch=1" in plan:  # one microbatch alone adds to nothing that has to be cleared
        kinds |= {"missing clear", "swapped microbatches", "wrong stride", "wrong scope"}
    if "zero" in plan:
        kinds |= {"wrong bucket"}
    if "dp=2,tp=2" in plan:  # collectives on a queue of their own
        kinds |= {"dropped wait", "dropped signal", "wrong queue"}
    if "zero=3" in plan:
        kinds |= {"parts of other ranks", "wrong group"}
    if "pp=2" in plan:
        kinds |= {"lost send", "lost receive", "doubled message", "wrong channel", "wrong peer", "dropped wait"}
    assert kinds <= set(result["planted"])
