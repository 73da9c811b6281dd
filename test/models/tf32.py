"""TF32 as a GPU's libraries compute it, on a processor: products and convolutions round their operands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

_ATEN = torch.ops.aten
# Which arguments are operands; the others are added to the product, or say how to convolve.
_OPERANDS = {_ATEN.mm.default: (0, 1), _ATEN.bmm.default: (0, 1), _ATEN.addmm.default: (1, 2), _ATEN.baddbmm.default: (1, 2),
             _ATEN.convolution.default: (0, 1)}


def rounded(value: torch.Tensor) -> torch.Tensor:
    """To the nearest number with 10 bits behind the point, ties away from zero."""
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def _wide(value: object) -> object:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


class _Products(TorchDispatchMode):
    """Below autograd, so that it sees the backward pass, too. Sums are exact: their order would decide which of two neighbours
    the next product rounds to."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is _ATEN.convolution_backward.default:
            return self._gradients(*args)
        if function not in _OPERANDS:
            return function(*args, **(kwargs or {}))
        args = [rounded(value) if place in _OPERANDS[function] else value for place, value in enumerate(args)]
        return function(*map(_wide, args), **(kwargs or {})).float()

    @staticmethod
    def _gradients(gradient, image, weight, biases, *window):
        """Those of a bias are sums, which nothing rounds."""
        *geometry, (wants_image, wants_weight, wants_bias) = window
        operands = [_wide(rounded(value)) for value in (gradient, image, weight)]
        products = _ATEN.convolution_backward(*operands, biases, *geometry, [wants_image, wants_weight, False])
        sums = gradient.sum((0, *range(2, gradient.dim()))) if wants_bias else None
        return *(product if product is None else product.float() for product in products[:2]), sums


@contextmanager
def products() -> Iterator[None]:
    """Attention becomes products and a softmax, as in dtc's programs in float32."""
    with sdpa_kernel(SDPBackend.MATH), _Products():
        yield
