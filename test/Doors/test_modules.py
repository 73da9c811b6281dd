"""What `dtc.from_torch` does for a module before it is read: experts at once, and PyTorch's own definitions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
import torch
import transformers
from doors import Logits  # which finds the package, too
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import dtc

BATCH, WIDTH, CLASSES = 8, 16, 5


def trained(module: nn.Module, x: torch.Tensor, target: torch.Tensor) -> tuple[list[float], list[float]]:
    """The losses of three steps, dtc's and PyTorch's."""
    program = dtc.parallelize(module, x, loss="cross_entropy", optimizer=dtc.SGD(lr=0.05), devices=2)
    batch = {name: x if name != "target" else target for name in program.inputs}
    ours = [program.step(batch).loss for _ in range(3)]
    optimizer, theirs = torch.optim.SGD(module.parameters(), 0.05), []
    for _ in range(3):
        logits = module(x)
        loss = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    return ours, theirs


def test_experts_are_multiplied_at_once():
    """In whatever form the module has them, which it keeps."""
    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
        intermediate_size=32, moe_intermediate_size=8, num_experts=4, num_experts_per_tok=2, max_position_embeddings=32)
    model = transformers.Qwen3MoeForCausalLM(config).eval()
    form = model.config._experts_implementation
    ids = torch.randint(0, 64, (BATCH, 8))
    ours, theirs = trained(Logits(model, ("input_ids",)).eval(), ids, torch.randint(0, 64, (BATCH, 8)))
    assert numpy.allclose(ours, theirs, rtol=1e-4) and model.config._experts_implementation == form != "batched_mm"


class Similar(nn.Module):
    """With operators that dtc doesn't read, and that PyTorch makes of others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.first(x), self.second(x)
        rows, columns = torch.meshgrid(torch.arange(2), torch.arange(CLASSES), indexing="xy")
        a = a + 0.1 * (rows * 2 - columns).sum(1)
        return a * torch.logit(torch.sigmoid(b), eps=0.3) + torch.nan_to_num(b)


def test_operators_become_what_they_are_made_of():
    torch.manual_seed(0)
    assert not {"aten.logit", "aten.nan_to_num"} & set(dtc._dtc.imported_operators().split(","))
    ours, theirs = trained(Similar(), torch.randn(BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,)))
    assert numpy.allclose(ours, theirs, rtol=1e-4)


class Aside(nn.Module):
    """With a weight that is stored by columns, and what the outputs don't read."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CLASSES, WIDTH).t())
        self.unread = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def test_all_of_a_module_comes_back():
    torch.manual_seed(0)
    module, x = Aside(), torch.randn(BATCH, WIDTH)
    program = dtc.parallelize(module, x, loss="cross_entropy", devices=1)
    module.load_state_dict(program.state_dict())
    assert numpy.array_equal(program.state_dict("numpy")["unread.weight"], module.unread.weight.detach())
    ours, theirs = trained(module, x, torch.randint(0, CLASSES, (BATCH,)))
    assert numpy.allclose(ours, theirs, rtol=1e-4)


def test_cumulative_averages_are_refused():
    module = nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.BatchNorm1d(CLASSES, momentum=None))
    with pytest.raises(dtc.UnsupportedError, match="1 has momentum=None"):
        dtc.from_torch(module.train(), torch.randn(BATCH, WIDTH))
    dtc.from_torch(module.eval(), torch.randn(BATCH, WIDTH))


class Counted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * int(x.sum())


def test_an_export_that_fails_is_one_line(capfd):
    """PyTorch prints the graph so far, too."""
    with pytest.raises(dtc.UnsupportedError, match="test_modules.py") as caught:
        dtc.from_torch(Counted(), torch.randn(BATCH, WIDTH))
    assert len(str(caught.value).splitlines()) == 1 and "def forward" not in capfd.readouterr().err


class Broadcast(nn.Module):
    """Repeats a weight without memory of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.scale = nn.Linear(WIDTH, CLASSES), nn.Parameter(torch.randn(CLASSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return x * torch.broadcast_to(self.scale, x.shape)


def test_broadcasts_train():
    torch.manual_seed(0)
    ours, theirs = trained(Broadcast(), torch.randn(BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,)))
    assert numpy.allclose(ours, theirs, rtol=1e-4)


def test_gradients_by_frequency_are_refused():
    module = nn.Sequential(nn.Embedding(4, WIDTH, scale_grad_by_freq=True), nn.Linear(WIDTH, 4))
    with pytest.raises(dtc.UnsupportedError, match="scale_grad_by_freq"):
        dtc.plan(module, torch.zeros(BATCH, 2, dtype=torch.int64), devices=2, loss="cross_entropy")


class Undefined(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x) + torch.histc(x)[:1]


class Rounded(torch.autograd.Function):
    """Whose gradient isn't that of what it computes."""

    @staticmethod
    def forward(_context: object, x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def backward(_context: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Changed(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.first, self.second = how, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        if how == "module":
            self.first.register_full_backward_hook(lambda _module, _before, after: after)
        if how == "parameter":
            self.second.weight.register_hook(lambda gradient: 2 * gradient)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "checkpoint" in self.how:
            return self.second(checkpoint(self.first, x, use_reentrant=self.how == "reentrant checkpoint"))
        x = self.first(x)
        if self.how == "function":
            x = Rounded.apply(x)
        if self.how == "tensor":
            x.register_hook(lambda gradient: 2 * gradient)
        return self.second(x)


@pytest.mark.parametrize("how,name", [
    ("function", "Rounded.backward"), ("tensor", "the hook of a tensor"), ("module", "the hook of first"),
    ("parameter", "the hook of second.weight"), ("reentrant checkpoint", "CheckpointFunction.backward")])
def test_gradients_that_an_export_leaves_out_are_refused(how: str, name: str):
    """Such a module gives outputs, and isn't trained."""
    source = dtc.from_torch(Changed(how), torch.zeros(BATCH, WIDTH))
    flags = {"devices": 1, "target": "cpu", "cluster": "cpu", "global_batch": BATCH}
    dtc.parallelize(source, loss="none", **flags)
    with pytest.raises(dtc.InputError, match=name):
        dtc.parallelize(source, loss="cross_entropy", **flags)


def test_other_checkpoints_train():
    ours, theirs = trained(Changed("checkpoint"), torch.randn(BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,)))
    assert numpy.allclose(ours, theirs, rtol=1e-4)


def test_what_has_no_definition_is_named_as_the_module_calls_it():
    with pytest.raises(dtc.UnsupportedError, match=r"aten\.histc\.default .*aten\.linalg_svdvals\.default"):
        dtc.parallelize(Undefined(), torch.randn(BATCH, WIDTH), loss="none", devices=1)


class OwnLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.head(x), y)


def test_a_module_with_its_own_loss():
    """Its mean mixes samples: the batch is that of the example."""
    module, inputs = OwnLoss(), (torch.randn(BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,)))
    with pytest.raises(dtc.InputError, match="--global-batch 8 without a micro_batch"):
        dtc.plan(module, inputs, gpus=4)
    with pytest.raises(dtc.InputError, match="--loss output:cross_entropy_loss"):
        dtc.plan(module, inputs, gpus=4, global_batch=BATCH)
    program = dtc.parallelize(module, inputs, loss="output:cross_entropy_loss", devices=2)
    found = program.step(dict(zip(program.inputs, inputs, strict=True))).loss
    assert found == pytest.approx(module(*inputs).item(), rel=1e-5)


def test_threads_bring_their_modules_side_by_side():
    """PyTorch's export itself follows one at a time."""
    modules = [nn.Sequential(nn.Linear(WIDTH, WIDTH + i), nn.ReLU(), nn.Linear(WIDTH + i, CLASSES)).eval() for i in range(4)]
    with ThreadPoolExecutor(len(modules)) as pool:
        plans = list(pool.map(lambda module: dtc.plan(module, torch.zeros(BATCH, WIDTH), gpus=1), modules))
    own = [sum(each.numel() for each in module.parameters()) for module in modules]
    assert [plan.facts["model"]["parameters"] for plan in plans] == own


class Folded(nn.Module):
    """A single image of blocks, without a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.second = nn.Parameter(torch.randn(2 * 3, 6)), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = functional.fold(torch.sin(self.blocks), (4, 4), (2, 3), stride=(1, 2), padding=(0, 1))
        return self.second(x + image.flatten())


def test_a_single_image_is_folded():
    torch.manual_seed(0)
    ours, theirs = trained(Folded(), torch.randn(BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,)))
    assert numpy.allclose(ours, theirs, rtol=1e-5)
