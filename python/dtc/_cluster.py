"""Clusters: built in, from a file, or of a device and its links."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any

from . import _dtc


class Cluster:
    """A cluster to plan for.

    `Cluster("dgx-h100")` is built in; `Cluster("mine.yaml")` is a file. A cluster of its own is made of the keys of such
    a file:

        dtc.Cluster(device="a100-80", devices_per_node=8,
                    intra_node={"bandwidth_gbs": 300, "latency_us": 5},
                    inter_node={"bandwidth_gbs": 25, "latency_us": 10})
    """

    def __init__(self, name: str | os.PathLike | None = None, /, **keys: Any):
        if (name is None) == (not keys):
            raise TypeError("a cluster is a name or a file, or the keys of a cluster file")
        self._folder = None
        if name is None:
            self._folder = tempfile.TemporaryDirectory(prefix="dtc-")
            name = pathlib.Path(self._folder.name) / "cluster.yaml"
            name.write_text(json.dumps(keys))  # which is YAML
        self.name = os.fspath(name)
        self.yaml = _dtc.cluster_yaml(self.name)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a YAML file that says all of the cluster."""
        _dtc.write_text(os.fspath(path), self.yaml)

    @staticmethod
    def names() -> list[str]:
        """The built-in clusters, and the devices that name a cluster of their usual nodes."""
        return _dtc.cluster_names().split()

    def __repr__(self) -> str:
        return f"Cluster({self.name!r})"


def calibrate(path: str | os.PathLike) -> Cluster:
    """Measures this machine's processor, which takes a minute, and writes it as a cluster file."""
    _dtc.command(["calibrate", f"--output={os.fspath(path)}"])
    return Cluster(path)
