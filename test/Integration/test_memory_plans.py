"""What is predicted for ranks of plans whose programs held more than they had to, or whose predictions were wrong."""

import pathlib
import sys

import pytest

from conftest import MODELS, ROOT, encode_model
from llama_graph import FLOAT, Graph, value_info

sys.path.insert(0, str(ROOT / "bench"))
import memory  # noqa: E402


@pytest.mark.parametrize("model,devices,plan,most", [
    ("gpt2", 2, "dp=1,pp=2,schedule=1f1b", 0.05),
    ("gpt2", 4, "dp=1,pp=4,schedule=1f1b", 0.05), ("t5", 2, "dp=1,pp=2,schedule=interleaved,chunks=2", 0.05),
    ("t5", 4, "dp=1,pp=2,tp=2,schedule=1f1b", 0.05), ("mixtral", 2, "dp=1,pp=2,schedule=1f1b", 0.05),
    ("resnet_tiny", 2, "dp=1,pp=2,schedule=gpipe", 0.05),
    ("resnet_tiny", 4, "dp=1,pp=4,schedule=gpipe", 0.03),  # residual sums are made again for their activation: 5.3 %
    ("mobilenet", 2, "dp=1,pp=2,schedule=gpipe", 0.01),  # so is what is clamped: 13.8 %
    ("mobilenet", 4, "dp=2,pp=2,schedule=zbv,chunks=2,zero=3", 0.03),  # also of shifts that were gathered: 16.8 %
    ("t5", 4, "dp=1,pp=4,schedule=1f1b,offload=optimizer", 0.01),  # gradients of scores lie where a slot kept the scores: 5.1 %
    ("gpt2", 2, "dp=1,pp=2,schedule=zbv,chunks=2", 0.01),  # both stages of a rank have a gradient of the tied weight: 7.7 %
    ("gpt2", 4, "dp=2,pp=2,schedule=zbv,chunks=2,zero=2", 0.01), ("bart", 2, "dp=1,pp=2,schedule=zbv,chunks=2", 0.03),
    ("t5", 2, "dp=1,pp=2,schedule=zbv,chunks=2,recompute=none", 0.01),  # what both stages of a rank keep is one: 3.0 %
    ("gpt2", 4, "dp=1,pp=2,tp=2,schedule=zb", 0.01), ("t5", 2, "dp=1,pp=2,schedule=zb", 0.01),  # sums wait for weights' gradients
    ("mixtral", 4, "dp=2,pp=2,schedule=1f1b,zero=3", 0.03),  # a model without blocks exchanges all at once
    ("llama", 4, "dp=1,pp=4,schedule=1f1b", 0.03),  # one kernel makes both gradients of a gated activation: 5.1 %
    ("mixtral", 4, "dp=1,pp=4,schedule=1f1b", 0.01),  # kernels find experts' rows where they are: 6.0 %
    ("mixtral", 4, "dp=1,pp=4,schedule=zb,offload=optimizer", 0.03),  # attention finds no room in slots: 5.2 %
    ("gpt2_mask", 4, "dp=2,pp=2,schedule=1f1b,zero=2", 0.03),  # both stages scatter a tied weight's gradient: 12 %
    ("qwen2", 4, "dp=1,pp=2,tp=2,schedule=1f1b,recompute=none", 0.04),  # so they do over tp: 8.4 %
    ("gpt2", 4, "dp=2,pp=2,schedule=interleaved,chunks=2,zero=2,recompute=none", 0.04),  # stages begin within blocks: 15 %
    ("gpt_neox", 4, "dp=2,pp=2,schedule=zb,zero=2,recompute=full", 0.02),  # attention's result waits, and not its scores: 6.3 %
    ("mistral", 4, "dp=2,pp=2,schedule=interleaved,chunks=2,zero=3,recompute=full", 0.02),  # and keep what they receive: 6.3 %
    ("gpt_neox", 2, "dp=1,pp=2,schedule=1f1b,recompute=full", 0.035),  # the whole is there where its parts are made again: 4.5 %
    ("gpt_neox", 2, "dp=1,pp=2,schedule=interleaved,chunks=2,recompute=none", 0.01),  # of packed heads slots have one part: 8.1 %
    ("bart", 4, "dp=2,pp=2,schedule=interleaved,chunks=2,zero=3,recompute=none", 0.025),  # the decoder's embeddings are another stage's: 7.5 %
    ("convnext", 4, "dp=2,pp=2,schedule=interleaved,chunks=2,zero=3,recompute=selective", 0.03),  # stages begin behind all blocks: 19 %
    ("bert", 4, "dp=2,pp=2,schedule=1f1b,zero=2,recompute=selective", 0.03),  # a tied weight is scattered before the others of its unit: 7.3 %
    ("bart", 4, "dp=2,pp=2,schedule=1f1b,zero=2,recompute=none", 0.03),  # its part waits while its stage goes on: 5.7 %
    ("gpt_neox", 2, "dp=1,pp=2,schedule=zbv,chunks=2,recompute=full", 0.02),  # what one rank's stage received is in its slot once: 4.9 %
    ("bart", 4, "dp=1,pp=2,tp=2,sp=on,schedule=1f1b,recompute=none", 0.01),  # a tied weight's term is scattered where it is made: 5.6 %
    ("bart", 4, "dp=1,pp=2,tp=2,sp=off,tp_weights=split,schedule=1f1b,recompute=none", 0.01)])  # logits are summed up in their slot: 7.1 %
def test_prediction_of_small_stages(model, devices, plan, most):
    """What passes by a stage, messages and tied weights are large shares of these."""
    for role in memory.measure(memory.Case("", "", MODELS / f"{model}.onnx", devices, plan + ",micro_batch=1")):
        assert abs(role.error) <= most or role.arena < memory.TINY, role


@pytest.mark.parametrize("model,devices,plan,most", [
    # A part of the probabilities beside a sink had a slot of its own, and so had a mask: 10 and 9 % of these.
    ("gpt_oss", 2, "dp=1,pp=2,schedule=1f1b,recompute=none", 0.04),
    ("gpt_oss", 4, "dp=1,pp=2,ep=2,schedule=zb,recompute=selective", 0.04),
    # Few rows' experts were looked up once for both passes: 11 to 30 % of these.
    ("olmoe", 2, "dp=1,cp=2,recompute=full", 0.01), ("olmoe", 2, "dp=1,cp=2,recompute=none", 0.01),
    ("qwen2_moe", 4, "dp=1,pp=2,cp=2,schedule=zbv,chunks=2,recompute=full", 0.03),
    ("gpt_oss", 4, "dp=1,pp=2,cp=2,schedule=1f1b,recompute=full", 0.03)])
def test_mixtures_store_nothing_in_vain(model, devices, plan, most):
    """Their programs held more than is predicted."""
    for role in memory.measure(memory.Case("", "", MODELS / f"{model}.pt2", devices, plan + ",micro_batch=1")):
        assert abs(role.error) <= most, role


@pytest.mark.parametrize("model,devices,plan,recipe,most", [
    # Slots had again what waits behind a barrier: 6.3 % of these.
    ("bart.onnx", 2, "dp=1,pp=2,micro_batch=4,schedule=zb,recompute=full", ("fp32", "adamw"), 0.01),
    # And what gradients of weights alone are gathered for: 5.6 %.
    ("t5.onnx", 4, "dp=1,tp=2,pp=2,micro_batch=4,sp=on,tp_weights=split,regather=off,schedule=list,recompute=full", ("fp32", "sgd"), 0.01),
    # And a gate's halves with their limits, instead of the gate: 6.0 %.
    ("gpt_oss.pt2", 4, "dp=1,pp=4,micro_batch=1,schedule=1f1b,recompute=none", ("bf16", "sgd"), 0.03),
    # And a rank's part of a mask: 10.8 %. Values that are repeated over heads are sent so.
    ("gpt_oss.pt2", 8, "dp=1,tp=2,pp=4,micro_batch=4,sp=off,tp_weights=split,schedule=interleaved,chunks=2,recompute=full",
     ("fp16", "sgd"), 0.04),
    # Parts of stored probabilities were copied for products in fp32: 5.2 %.
    ("gpt_oss.pt2", 2, "dp=1,cp=2,micro_batch=2,cp_by=keys,regather=on,recompute=none", ("bf16", "adamw"), 0.03),
    # A whole table's gradient has no room in that of a part: 9.1 %.
    ("qwen2.onnx", 4, "dp=1,tp=2,pp=2,micro_batch=1,sp=off,tp_weights=any,schedule=list,recompute=selective", ("bf16-true", "adamw"), 0.02),
    # One of two terms waited in fp32, and the other is rounded by their sum: 5.2 %.
    ("t5.onnx", 8, "dp=4,pp=2,micro_batch=1,zero=3,schedule=list,recompute=none", ("bf16-true", "sgd"), 0.02),
    # A stage computes its own part of a block again: 8.3 %.
    ("moe.onnx", 4, "dp=1,pp=4,micro_batch=1,schedule=list,recompute=full,offload=optimizer", ("bf16", "adamw"), 0.02),
    # A table's gradient lies where its first term is made: 7.3 %.
    ("bart.onnx", 8, "dp=2,pp=2,cp=2,micro_batch=4,cp_by=heads,regather=off,zero=1,schedule=zb,recompute=full", ("bf16", "adamw"), 0.02),
    # What a stage is sent as a mask isn't read by the gradients of attention that keeps its scores: 8.6 %.
    ("bert.onnx", 8, "dp=2,tp=2,pp=2,micro_batch=1,sp=on,tp_weights=split,regather=on,zero=2,schedule=list,recompute=full",
     ("bf16", "sgd"), 0.01),
    # What is computed again was part of kernels of the forward pass, and logits were there beside those gathered again: 16.6 %.
    ("qwen2.onnx", 2, "dp=1,tp=2,micro_batch=1,sp=on,tp_weights=split,regather=on,recompute=full", ("fp32", "adamw"), 0.01),
    # Attention makes its scores of keys that are gathered again. Of its values a slot has the part: 8.3 %.
    ("gpt_neox.onnx", 6, "dp=1,pp=3,cp=2,micro_batch=1,cp_by=keys,regather=on,schedule=1f1b,recompute=none", ("fp32", "adamw"), 0.01),
    # Masks of dropout were kept, though they are drawn again: 6.6 %.
    ("gpt2_dropout.pt2", 2, "dp=1,pp=2,micro_batch=1,schedule=gpipe,recompute=full", ("bf16-true", "sgd"), 0.03),
    # No parameters are gathered for gradients of weights: 9.4 %.
    ("resnet_tiny.onnx", 8, "dp=4,pp=2,micro_batch=1,zero=3,zero_group=2,schedule=list,recompute=none", ("fp32", "adamw"), 0.01),
    # Nor are whole gradients there beside gradients of data: 5.7 %.
    ("mistral.onnx", 8, "dp=4,pp=2,micro_batch=1,zero=2,zero_group=2,schedule=zbv,chunks=2,recompute=selective,offload=optimizer",
     ("fp32", "adamw"), 0.02)])
def test_prediction_of_drawn_plans(monkeypatch, model, devices, plan, recipe, most):
    """Of `bench/memory.py --grid random`. The figures are how far off they were. All processors have the products of AVX2."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    case = memory.Case("", "", MODELS / model, devices, plan, precision=recipe[0], optimizer=recipe[1])
    for role in memory.measure(case):
        assert abs(role.error) <= most, role


@pytest.mark.parametrize("model,devices,plan,recipe", [
    # The gradient of the head's weight has the most: 1.4 % too high, as slots and messages are counted 31 KB too high.
    ("t5.onnx", 4, "dp=1,tp=2,pp=2,micro_batch=4,sp=on,tp_weights=split,regather=off,schedule=list,recompute=full", ("fp32", "sgd")),
    # One of attention's gradients has the most, which needs more than the others: 4.8 % too low.
    ("gpt_oss.pt2", 8, "dp=1,tp=2,pp=4,micro_batch=4,sp=off,tp_weights=split,schedule=interleaved,chunks=2,recompute=full", ("fp16", "sgd")),
    # Products of bf16 are faster than those of copies in fp32, and so the plan has other stages: up to 4.2 % too high.
    ("bert.onnx", 8, "dp=2,tp=2,pp=2,micro_batch=1,sp=on,tp_weights=split,regather=on,zero=2,schedule=list,recompute=full", ("bf16", "sgd"))])
def test_prediction_with_the_processors_own_products(model, devices, plan, recipe):
    """With AVX-512 oneDNN needs other room beside its operands. So other products hold the most than with AVX2 alone."""
    case = memory.Case("", "", MODELS / model, devices, plan, precision=recipe[0], optimizer=recipe[1])
    for role in memory.measure(case):
        assert abs(role.error) <= 0.05, role


@pytest.mark.parametrize("model,devices,plan,lower,most", [
    # A scatter begins while the last block's gradients wait to be added up: 5.2 and 4.7 % of these.
    ("llama", 4, "pp=2,dp=2,schedule=1f1b,micro_batch=1,zero=3", (), 0.015),
    ("llama", 4, "pp=2,dp=2,schedule=zb,micro_batch=1,zero=3", (1,), 0.015),
    # A tied table that is a block by itself was gathered for the way back before the logits were there: 10 % of these.
    ("qwen2", 4, "dp=4,micro_batch=1,zero=3,recompute=none", (), 0.015), ("qwen2", 2, "dp=2,zero=3,recompute=none", (), 0.015),
    # What comes before the head is gathered as the head's norm is read, after its products: 6.4 and 5.4 % of these.
    ("moe", 4, "dp=2,tp=2,zero=3,micro_batch=2", (), 0.015),
    ("gpt2", 2, "dp=2,zero=3", (0,), 0.015),
    # A gradient is summed up over tp while the next block's parameters arrive: 7.2 % of these.
    ("llama", 4, "dp=2,tp=2,micro_batch=2,zero=3", (0,), 0.015), ("llama", 4, "dp=2,tp=2,micro_batch=2,zero=3", (1,), 0.015)])
def test_prediction_where_blocks_scatter_and_gather(model, devices, plan, lower, most):
    for role in memory.measure(memory.Case("", "", MODELS / f"{model}.onnx", devices, plan, lower=lower)):
        assert abs(role.error) <= most, role


@pytest.mark.parametrize("devices,model,plan", [
    (4, "gpt2", "dp=2,pp=2,schedule=1f1b,micro_batch=1,zero=2,recompute=none"),  # 9 % too low without the sum in fp32
    (4, "bart", "dp=1,pp=4,schedule=zbv,chunks=2,micro_batch=2,recompute=none,offload=optimizer")])  # 16 %
def test_sums_of_looked_up_rows_are_predicted_in_fp32(model, devices, plan):
    """A table's gradient in half precision is rounded once its rows are added up."""
    for role in memory.measure(memory.Case("", "", MODELS / f"{model}.onnx", devices, plan, precision="bf16-true")):
        assert abs(role.error) <= 0.02, role


@pytest.mark.parametrize("devices,plan,precision", [(3, "pp=3,schedule=zbv,chunks=2", "bf16"), (2, "pp=2,schedule=1f1b", "fp32")])
def test_stages_that_share_a_weight_hold_it_and_one_term_of_its_gradient(devices, plan, precision):
    """Thirteen layers do. The first stage held eight gradients of it for each microbatch: 37 % of the arena."""
    case = memory.Case("", "", MODELS / "points.pt2", devices, f"dp=1,micro_batch=1,recompute=none,{plan}", precision=precision)
    assert abs(memory.measure(case)[0].error) <= 0.05


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    """Layers of one product each. Some multiply by the same weight."""
    folder = tmp_path_factory.mktemp("chains")

    def model(layers: int, shared: range) -> pathlib.Path:
        graph = Graph()
        graph.lines.append(value_info("input", "x", [8, 256], FLOAT, "USER_INPUT"))
        common, x = graph.parameter("common.weight", 256, 256), "x"
        for layer in range(layers):
            weight = common if layer in shared else graph.parameter(f"{layer}.weight", 256, 256)
            x = graph.node("Tanh", f"{layer}.tanh", graph.node("MatMul", f"{layer}.product", x, weight))
        graph.lines.append(value_info("output", graph.linear("logits", x, 256, 32), [8, 32], FLOAT))
        body = "\n".join(graph.lines)
        return encode_model(f'ir_version: 10 opset_import {{ version: 24 }} graph {{ name: "chain" {body} }}', folder / f"{layers}{shared}.onnx")
    return model


@pytest.mark.parametrize("layers,shared,devices,plan,recipe", [
    # All terms of a stage wait for its last: 18.0 % of these.
    (7, range(4), 4, "pp=2,schedule=zb,zero=2", ("fp32", "sgd")),
    # A stage's part of such a gradient was counted twice: 13.9 %.
    (4, range(3), 4, "pp=2,schedule=interleaved,chunks=2,zero=2", ("fp32", "sgd")),
    # A stage whose last step makes its only term scatters that, too: 6.4 %.
    (5, range(3), 6, "pp=3,schedule=1f1b,zero=3", ("bf16", "adamw")),
    # The weight is gathered once for all layers of a stage: 6.2 %.
    (6, range(2, 5), 6, "pp=3,schedule=zb,zero=3", ("fp32", "adamw"))])
def test_prediction_of_layers_that_share_a_weight(chains, layers, shared, devices, plan, recipe):
    case = memory.Case("", "", chains(layers, shared), devices, f"dp=2,{plan},micro_batch=1,recompute=none",
                       precision=recipe[0], optimizer=recipe[1])
    for role in memory.measure(case):
        assert abs(role.error) <= 0.02, role
