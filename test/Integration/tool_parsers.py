"""Reads the committed settings of test/Integration/tool_settings with the programs' own parsers.

    PYTHON_WITH_TOOLS test/Integration/tool_parsers.py
    PYTHON_WITH_NEMO test/Integration/tool_parsers.py nemo

The first needs megatron-core 0.16.1, torchtitan 0.2.2, deepspeed 0.19.8, accelerate 1.15.0, litgpt 0.5.13, transformers
below 5 and PyTorch of PyPI. The second needs nemo_toolkit 2.5.3 and nemo_run 0.6.0 with what `nemo.collections.llm` imports, which
wants other releases of the same packages. A program that isn't installed counts as failed. Megatron-LM's parser isn't on PyPI: its flags are made of the fields of
Megatron-Core's classes, by whose names they are looked up here.
"""

import json
import pathlib
import shlex
import sys
import traceback

FOLDER = pathlib.Path(__file__).parent / "tool_settings"
#: Flags of Megatron-LM's own classes (megatron/training), and that which its arguments.py declares by hand.
MEGATRON_LM_ONLY = {"micro_batch_size", "global_batch_size", "num_virtual_stages_per_pipeline_rank"}


def text(tool: str) -> str:
    return (FOLDER / f"{tool}.txt").read_text()


def arguments(tool: str) -> list[str]:
    return shlex.split(text(tool), comments=True)


def megatron_core() -> None:
    import torch
    import yaml
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer import TransformerConfig
    said = yaml.safe_load(text("megatron-core"))
    model = TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, num_query_groups=4,
                              **said["TransformerConfig"])
    assert model.tensor_model_parallel_size == 2 and model.bf16 and not model.sequence_parallel
    data = DistributedDataParallelConfig(**said["DistributedDataParallelConfig"])
    assert data.use_distributed_optimizer and data.overlap_param_gather
    assert OptimizerConfig(lr=1e-3, params_dtype=torch.bfloat16, **said["OptimizerConfig"]).use_distributed_optimizer


def megatron_lm() -> None:
    import dataclasses
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer import TransformerConfig
    known = {field.name for each in (TransformerConfig, DistributedDataParallelConfig, OptimizerConfig)
             for field in dataclasses.fields(each)} | MEGATRON_LM_ONLY
    flags = {word.removeprefix("--").replace("-", "_") for word in arguments("megatron-lm") if word.startswith("--")}
    assert flags <= known, flags - known


def torchtitan() -> None:
    import tempfile
    from torchtitan.config import ConfigManager
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text("torchtitan"))
        file.flush()
        config = ConfigManager().parse_args(["--job.config_file", file.name])
    assert config.parallelism.data_parallel_shard_degree == 4 and config.parallelism.tensor_parallel_degree == 2
    assert config.training.local_batch_size == 2 and config.activation_checkpoint.mode == "full"


def deepspeed() -> None:
    import deepspeed.runtime.config as module
    module.dist.get_rank, module.dist.get_world_size = (lambda: 0), (lambda *group: 16)
    config = module.DeepSpeedConfig(json.loads(text("deepspeed")))
    assert config.train_micro_batch_size_per_gpu == 2 and config.gradient_accumulation_steps == 2
    assert int(config.zero_config.stage) == 2 and config.zero_config.offload_optimizer.device == "cpu"


def fsdp() -> None:
    import inspect
    import torch.distributed.fsdp as module
    import yaml
    said = yaml.safe_load(text("fsdp"))
    assert module.ShardingStrategy[said["FullyShardedDataParallel"]["sharding_strategy"]]
    assert "sharding_strategy" in inspect.signature(module.FullyShardedDataParallel).parameters
    import torch
    module.MixedPrecision(**{key: getattr(torch, value.split(".")[1]) for key, value in said["MixedPrecision"].items()})


def accelerate() -> None:
    import tempfile
    from accelerate.commands.config import load_config_from_file
    from accelerate.commands.launch import launch_command_parser
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text("accelerate"))
        file.flush()
        config = load_config_from_file(file.name)
    assert config.num_processes == 16 and config.mixed_precision == "bf16"
    flags = {option for action in launch_command_parser()._actions for option in action.option_strings}
    assert all("--" + key in flags for key in config.fsdp_config), config.fsdp_config


def litgpt() -> None:
    from jsonargparse import ArgumentParser
    from litgpt.pretrain import setup
    parser = ArgumentParser()
    parser.add_function_arguments(setup)
    parsed = parser.parse_args(["--model_name", "pythia-14m", *arguments("litgpt")])
    assert parsed.train.global_batch_size == 64 and parsed.precision == "bf16-mixed" and int(parsed.devices) == 8


def nemo() -> None:
    """As `nemo llm pretrain --factory llama3_8b` reads them. What an object takes by any name is looked up beside it."""
    import inspect
    import fiddle
    from nemo.collections.llm.api import pretrain
    from nemo.collections.llm.recipes import llama3_8b
    from nemo.lightning import MegatronStrategy
    from nemo_run.cli.cli_parser import parse_cli_args
    parsed = parse_cli_args(pretrain, arguments("nemo"), llama3_8b.pretrain_recipe(num_nodes=1))
    prefix = "trainer.strategy."
    asked = {word.removeprefix(prefix).split("=")[0].split(".")[0] for word in arguments("nemo") if word.startswith(prefix)}
    assert asked <= set(inspect.signature(MegatronStrategy.__init__).parameters), asked
    strategy = fiddle.build(parsed.trainer.strategy)
    assert strategy.tensor_model_parallel_size == 2 and strategy.pipeline_model_parallel_size == 2
    data_parallel = strategy.ddp_config
    assert data_parallel.overlap_grad_reduce and not data_parallel.use_distributed_optimizer
    # Megatron-Core refuses the one without the other; NeMo's recipes have it.
    assert data_parallel.use_distributed_optimizer or not data_parallel.overlap_param_gather
    assert (int(parsed.trainer.devices), parsed.trainer.num_nodes) == (8, 2)
    assert (parsed.data.micro_batch_size, parsed.data.global_batch_size) == (2, 64)
    assert fiddle.build(parsed.trainer.plugins).precision == "bf16-mixed"


CHECKS = (megatron_core, megatron_lm, torchtitan, deepspeed, fsdp, accelerate, litgpt)


def main() -> int:
    failed = 0
    for check in (nemo,) if sys.argv[1:] == ["nemo"] else CHECKS:
        try:
            check()
            print(f"{check.__name__}: parsed")
        except Exception:
            failed += 1
            print(f"{check.__name__}: FAILED\n{traceback.format_exc(limit=-3)}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
