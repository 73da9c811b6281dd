"""How fast experts that tokens look up are on a GPU: the part `mixtures` of gpu_tests.py, and what packs it.

Of one mixture, in one run: tokens/s with slots for the worst case, which libraries multiply, and with slots in tiles
(capacity=tiles), which a kernel of dtc multiplies. Steps are predicted, too: by the share of a library's rate that this kernel is
taken to have (kGroupedShare in Plan/Cost/CostModel.h).
"""

import pathlib

import gpu_speed

CAPACITIES = ("worst", "tiles")
LEAST_RATIO = 1.0  # of the tokens/s with slots for the worst case: else tiles are of no use
#: As gpu_speed.MODELS. A fourth of the experts are chosen, as in Mixtral 8x7B.
MODEL = ("mixtral-0.4b", {"architecture": "mixtral", "layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 8, "ffn": 3584,
                          "vocabulary": 32000, "sequence": 2048, "experts": 8, "chosen": 2}, 4)


def pack(folder: pathlib.Path, build: pathlib.Path, graph: pathlib.Path, model: dict, flags: list) -> dict:
    """An artifact for each capacity, and the steps that are predicted of it."""
    name, batch = model["name"], model["batches"][0]
    gpu_speed.write_tokens(folder / f"{name}.bin", model["vocabulary"], (batch * 4 + 1) * model["sequence"] + 1)
    artifacts = []
    for capacity in CAPACITIES:
        asked = [graph, "--target", "cuda", "--devices", 1, "--precision", "bf16", "--loss", "cross_entropy", "--optimizer", "adamw",
                 "--lr", "1e-4", "--plan", f"dp=1,recompute=none,capacity={capacity}", "--global-batch", batch]
        path = folder / f"{name}-{capacity}.dtc"
        gpu_speed.run_compiler(build, "compile", *asked, "--cluster", "dgx-h100", *flags, "-o", path, check=True)
        artifacts.append({"batch": batch, "capacity": capacity, "file": path.name,
                          "predicted_s": gpu_speed.predicted_seconds(build, asked)})
    return model | {"artifacts": artifacts}


def rows(machine, folder: pathlib.Path, model: dict):
    rates, kind = {}, gpu_speed.kind_of(machine)
    for artifact in model["artifacts"]:
        seconds, why = gpu_speed.run_dtc(machine, folder, model, artifact)
        label = f"{model['name']}: capacity={artifact['capacity']}"
        if why:
            yield (label, *why)
            continue
        rates[artifact["capacity"]] = artifact["batch"] * model["sequence"] / seconds
        predicted = artifact["predicted_s"].get(kind)
        yield (label, True, f"{rates[artifact['capacity']]:.0f} tokens/s, {1000 * seconds:.2f} ms a step"
               + (f", predicted {100 * (predicted / seconds - 1):+.1f} %" if predicted else ""))
    if len(rates) == len(CAPACITIES):
        ratio = rates["tiles"] / rates["worst"]
        yield f"{model['name']}: tiles", gpu_speed.judge(ratio >= LEAST_RATIO, machine), f"{ratio:.2f} of the tokens/s of the worst case"
