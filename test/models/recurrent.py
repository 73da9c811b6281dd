"""A classifier of short sequences by LSTM, GRU and RNN: x [batch, 32] -> logits [batch, 10].

A sample is four positions with eight numbers. Positions of its table are computed without gradients, as Marian's and Pegasus' are.
"""

from __future__ import annotations

import torch
from torch import nn

from sizes import CLASSES, FEATURES

LENGTH = 4


class Recurrent(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        numbers = FEATURES // LENGTH
        self.places = nn.Embedding(LENGTH, numbers)  # never trained, though it is a parameter
        # Of one kind, wherever it is looked up, as the segments of RoBERTa are.
        self.register_buffer("kinds", torch.zeros(1, 2 * LENGTH, dtype=torch.int64))
        self.kind = nn.Embedding(2, numbers)
        self.lstm = nn.LSTM(numbers, width, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(2 * width, width, num_layers=2)
        self.plain = nn.RNN(width, width, nonlinearity="relu", bias=False)
        self.both = nn.RNN(width, width, bidirectional=True, batch_first=True)
        self.long, self.gated, self.single = nn.LSTMCell(width, width), nn.GRUCell(width, width), nn.RNNCell(width, width)
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            places = self.places(torch.arange(LENGTH))
        h = x.reshape(x.shape[0], LENGTH, -1) + places.detach()
        counted = (x[:, :LENGTH] > 0).long().cumsum(1)
        h = h + self.kind(torch.gather(self.kinds.expand(x.shape[0], -1), 1, counted))
        h, (last, cells) = self.lstm(h)
        h, hidden = self.gru(torch.movedim(h, 0, 1))
        h, tail = self.plain(h, torch.moveaxis(last[:1], (0, 1), (0, 1)))
        h, ends = self.both(h.swapdims(0, 1))
        state, cell = self.long(h.sum(1)[:, :6], (cells.sum(0), hidden[1]))
        state = self.gated(state, cell) + self.single(state, tail[0])
        mixed = state @ (torch.eye(6, dtype=x.dtype) + 0.1 * torch.eye(6, dtype=x.dtype).flip(0))
        return self.head(torch.cat((mixed, ends.mean(0)), 1))
