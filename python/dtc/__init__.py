"""dtc plans how to train a model on many devices, and compiles it into a program that does.

    import dtc
    plan = dtc.plan("llama-70b.onnx", gpus=64, cluster="dgx-h100", global_batch=512, precision="bf16")
    program = dtc.parallelize("gpt2.onnx", loss="cross_entropy", optimizer=dtc.AdamW(lr=3e-4), devices=4)
    for batch in loader:
        print(program.step(batch).loss)

What it prints, refuses and writes is what the command line does, which `python -m dtc` is.
"""

from ._cluster import Cluster, calibrate
from ._errors import (DtcWarning, Error, InputError, NotFiniteError, PlanError, RankLostError, UnsupportedError,
                      UsageError)
from ._estimate import DeviceNeed, Estimate, Simulation, estimate, simulate
from ._flags import SGD, Adam, AdamW, LearningRate
from ._models import from_hf, from_torch
from ._plan import Explanation, Memory, Plan, Stage, plan
from ._program import Program, Step, load, parallelize

__all__ = [
    "Adam", "AdamW", "Cluster", "DeviceNeed", "DtcWarning", "Error", "Estimate", "Explanation", "InputError",
    "LearningRate", "Memory", "NotFiniteError", "Plan", "PlanError", "Program", "RankLostError", "SGD", "Simulation",
    "Stage", "Step", "UnsupportedError", "UsageError", "calibrate", "estimate", "from_hf", "from_torch", "load", "parallelize",
    "plan", "simulate",
]
