"""Damaged and hostile .pt2 archives: exit code 3 and one line that says what is wrong."""

import json
import zipfile

import pytest

from conftest import MODELS, call

PROGRAM = MODELS / "mlp.pt2"


class Archive:
    """The members of mlp.pt2, to be changed and written again."""

    def __init__(self):
        with zipfile.ZipFile(PROGRAM) as zipped:
            self.members = {info.filename.removeprefix("mlp/"): zipped.read(info) for info in zipped.infolist()}
        self.compression = zipfile.ZIP_STORED

    def edit(self, member: str, change) -> "Archive":
        value = json.loads(self.members[member])
        change(value)
        self.members[member] = json.dumps(value).encode()
        return self

    def program(self, change) -> "Archive":
        return self.edit("models/model.json", change)

    def weight(self, name: str, **changed) -> "Archive":
        """Other values in what the archive says of a weight."""
        def change(config):
            entry = config["config"][name]
            for key, value in changed.items():
                (entry if key in entry else entry["tensor_meta"])[key] = value
        return self.edit("data/weights/model_weights_config.json", change)

    def refused(self, folder) -> str:
        path = folder / "m.pt2"
        with zipfile.ZipFile(path, "w", self.compression) as zipped:
            for name, data in self.members.items():
                zipped.writestr("mlp/" + name, data)
        return refusal(path)


def refusal(path) -> str:
    outcome = call("dtc", "plan", path, "--devices", 1, "--loss", "cross_entropy", "--global-batch", 8, timeout=20)
    assert outcome.code == 3, outcome
    assert len(outcome.err.splitlines()) == 1
    return outcome.error_line()


def sizes(*values: int) -> list[dict]:
    return [{"as_int": value} for value in values]


def nodes(program) -> list:
    return program["graph_module"]["graph"]["nodes"]


def test_archive_is_truncated(tmp_path):
    for share in (1, 2, 3):
        path = tmp_path / "cut.pt2"
        data = PROGRAM.read_bytes()
        path.write_bytes(data[:len(data) * share // 4])
        assert "truncated, or not a zip file" in refusal(path)


def test_archive_of_another_kind(tmp_path):
    archive = Archive()
    del archive.members["archive_format"]
    assert "is no program" in archive.refused(tmp_path)
    archive.members["archive_format"] = b"pickle"
    assert "is an archive of another format: pickle" in archive.refused(tmp_path)


@pytest.mark.parametrize("change,message", [
    (lambda a: a.members.update(byteorder=b"big"), "stores bytes in the order big"),
    (lambda a: a.members.pop("data/weights/weight_0"), "lies in a member that is not there"),
    (lambda a: a.members.update({"data/weights/weight_0": b"1234"}), "needs more bytes than the 4"),
    (lambda a: a.members.update({"models/other.json": b"{}"}), "has several programs"),
    (lambda a: a.members.update({"models/model.json": b"[" * 100_000}), "nests deeper than 64 levels"),
    (lambda a: a.members.update({"models/model.json": b"{"}), "is not JSON"),
    (lambda a: a.members.update({"models/model.json": b"{}"}), "lacks the field"),
    (lambda a: a.weight("fc1.weight", use_pickle=True), "is a pickle"),
    (lambda a: a.weight("fc1.weight", dtype=99), "has an unsupported type"),
    (lambda a: a.weight("fc1.weight", sizes=sizes(1 << 40, 1 << 40)), "too many elements"),
    (lambda a: a.weight("fc1.weight", sizes=sizes(-1, 32)), "negative size"),
    (lambda a: a.weight("fc1.weight", sizes=sizes(*[1] * 100)), "more than 64 dimensions"),
    (lambda a: a.weight("fc1.weight", storage_offset={"as_int": 1}), "needs more bytes"),
    (lambda a: a.weight("fc1.weight", storage_offset={"as_int": (1 << 63) - 1}), "needs more bytes"),
    (lambda a: a.weight("fc1.weight", strides=sizes(1, 64)), "is not stored row by row"),
    (lambda a: a.weight("fc1.bias", path_name="weight_0"), "share some of their elements"),
])
def test_archive_is_wrong(tmp_path, change, message):
    archive = Archive()
    change(archive)
    assert message in archive.refused(tmp_path)


def test_weights_are_compressed(tmp_path):
    archive = Archive()
    archive.compression = zipfile.ZIP_DEFLATED
    assert "is compressed" in archive.refused(tmp_path)


def test_another_version_of_the_schema(tmp_path):
    archive = Archive().program(lambda p: p["schema_version"].update(major=7))
    assert "has version 7 of PyTorch's schema" in archive.refused(tmp_path)


def test_unsupported_operators_are_all_named_with_their_lines(tmp_path):
    def change(program):
        for node, op in zip(nodes(program), ("aten.bincount.default", "custom.op.default")):
            node["target"] = f"torch.ops.{op}"
            node["metadata"]["stack_trace"] = 'File "/home/me/model.py", line 12, in forward\n    x'
    line = Archive().program(change).refused(tmp_path)
    assert "unsupported operators: aten.bincount.default (model.py:12), custom.op.default (model.py:12)" in line


@pytest.mark.parametrize("change,message", [
    (lambda n: n["inputs"][0]["arg"].update(as_tensor={"name": "nowhere"}), "needs a tensor as its argument input"),
    (lambda n: n["inputs"].clear(), "needs a tensor as its argument input"),
    (lambda n: n["inputs"][1]["arg"]["as_tensor"].update(name="p_fc1_bias"), "of shapes or types that do not fit"),
    (lambda n: n.update(outputs=7), "has no list in the field outputs"),
    (lambda n: n["inputs"][0].update(arg={"as_int": 1 << 64}), "has no integer"),
])
def test_operator_is_wrong(tmp_path, change, message):
    archive = Archive().program(lambda program: change(nodes(program)[0]))
    assert message in archive.refused(tmp_path)


def test_a_change_of_no_buffer_is_refused(tmp_path):
    def change(program):
        program["graph_module"]["signature"]["output_specs"].append(
            {"buffer_mutation": {"arg": {"name": "x"}, "buffer_name": "steps"}})
    assert "changes a buffer that it doesn't have: steps" in Archive().program(change).refused(tmp_path)


@pytest.mark.parametrize("later,message", [(True, "may share its elements, is read later"), (False, "changes an input or a weight")])
def test_changes_in_place_that_others_see_are_refused(tmp_path, later, message):
    """y = x.contiguous(); x.add_(1); y is read: whether that is x depends on strides."""
    def change(program):
        made = nodes(program)
        target = made[0]["outputs"][0]["as_tensor"]["name"] if later else "x"
        view = {"target": "torch.ops.aten.contiguous.default", "name": "seen", "metadata": {},
                "inputs": [{"name": "self", "arg": {"as_tensor": {"name": target}}}],
                "outputs": [{"as_tensor": {"name": "seen"}}]}
        changed = {"target": "torch.ops.aten.add_.Tensor", "name": "changed", "metadata": {},
                   "inputs": [{"name": "self", "arg": {"as_tensor": {"name": target}}},
                              {"name": "other", "arg": {"as_int": 1}}],
                   "outputs": [{"as_tensor": {"name": "changed"}}]}
        program["graph_module"]["graph"]["outputs"] = []
        program["graph_module"]["signature"]["output_specs"] = [
            {"user_output": {"arg": {"as_tensor": {"name": name}}}} for name in ("seen", "changed")]
        made[1:] = [view, changed]
    assert message in Archive().program(change).refused(tmp_path)
