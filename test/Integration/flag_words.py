"""Command lines to mutate (`fuzzing.py`, test/Fuzz): a word on each line, without the program."""

import random

VALUES = ["-1", "0", "1", "2", "010", "0x10", "1e999", "-1e30", "nan", "inf", "99999999999999999999", "9223372036854775807",
          "18446744073709551616", "1.5", "", "x", "a=b", "=", ",", "--", "-h", "[[", "(" * 40, "none", "auto", "dp=2,tp=4", "5%",
          "%", "é", "\t", "x" * 300]
# In their folder are the files that they name.
DTC = ["""plan model.onnx --gpus 8 --cluster dgx-h100 --optimizer adamw --lr 1e-3 --betas 0.9,0.95 --eps=1e-8 --weight-decay=0.1
       --no-decay=bias --clip-grad-norm=1 --lr-schedule=cosine --warmup-steps=2 --total-steps=10 --min-lr=1e-5 --global-batch=64
       --micro-batch=2 --precision=bf16 --explain --json""",
       """plan model.onnx --gpus=8 --global-batch=64 --for=megatron-lm --memory-headroom=5% --save-settings s.sh --report r.html
       --trace t.json --train=fc --loss mse""",
       "plan model.onnx --devices=2 --compare dp=2 tp=2 --shape=x=8x32xf32 --target=cpu --cluster=cpu",
       """compile model.onnx --devices 2 --loss cross_entropy --global-batch 8 --plan dp=2 --emit plan --label-smoothing=0.1
       --optimizer=sgd --momentum=0.9 --nesterov --threads-per-rank=1 --freeze=fc1 --save-plan plan.yaml --no-verify -o out.mlir""",
       """compile model.onnx --target=cuda --arch=sm_90 --devices=2 --loss=mse --precision=fp16 --loss-scale=1024
       --loss-scale-growth-interval=100 --emit=import --batch-norm=train --lora rank=4,alpha=8,targets=fc -o out.mlir""",
       "compile model.onnx --loss=none --batch-dim=x=0 --emit=lower --embed-weights -o out.mlir",
       "estimate model.onnx --gpu-memory=48GB --gpu-memory=80GiB --lora-rank=8 --quantization=int4 --gradients=fp32 --loss=cross_entropy --gpus=4 --json"]
DTC_RUN = ["""mlp.dtc --data data.npz --steps 10 --no-shuffle --seed 18446744073709551615 --log log.jsonl --checkpoint-dir saved
           --checkpoint-every=2 --checkpoint-keep 3 --resume --save-weights merged=w.safetensors --profile p.json --timeout 1.5""",
           "mlp.dtc --eval-data eval.npz --eval-every 5 --outputs o.safetensors --processes --save_weights=peft=folder"]

MORE = ["--padding-idx=w=0", "--class-weights=w.npz", "--weights=w", "--data=data.npz", "--plan-from=s.sh", "--model-name=m", "--init",
        "--config=c.yaml"]


def lines(commands: list[str]) -> list[bytes]:
    return ["\n".join(command.split()).encode() for command in commands]


def mutate_words(content: bytes, rng: random.Random) -> bytes:
    """Other words, or other values of flags; the first word stays."""
    words = content.decode(errors="replace").split("\n")
    others = MORE + [word for command in DTC + DTC_RUN for word in command.split() if word.startswith("-")]
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(min(1, len(words) - 1), len(words))
        kind = rng.randrange(6)
        flag, equals, _ = words[at].partition("=")
        if kind < 2:
            words[at] = flag + equals + rng.choice(VALUES) if equals else rng.choice(VALUES)
        elif kind == 2:
            words[at:at] = [rng.choice(others)]
        elif kind == 3:
            del words[at]
        elif kind == 4:
            words[at:at] = words[at:at + 2]
        elif words[at]:
            cut = rng.randrange(len(words[at]))
            words[at] = words[at][:cut] + rng.choice(["", "=", "_", "-", ",", "x"]) + words[at][cut + 1:]
    return "\n".join(words or [""]).encode()
