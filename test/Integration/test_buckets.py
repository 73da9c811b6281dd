"""Where many blocks of a GPU would read many indices, these are sorted into buckets before (Sharding/IndexBuckets.h). The gradient of
such an embedding is what CPUs make of it, with a vocabulary that is whole or divided, and added up over microbatches."""

import zipfile

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import check_call, encode_model
from test_cuda import emulator  # noqa: F401

ROWS, WIDTH, CLASSES, SEQUENCE, BATCH = 528, 8, 16, 512, 16


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    """Looks tokens up and multiplies; tokens of which a third are one and the same."""
    folder = tmp_path_factory.mktemp("embedding")
    draw = numpy.random.default_rng(0)

    table = draw.normal(size=(ROWS, WIDTH)).astype(numpy.float32)

    def tensor(name, array):
        dims, values = array.shape, ", ".join(repr(float(value)) for value in array.flatten())
        return f'initializer {{ name: "{name}" data_type: 1 {" ".join(f"dims: {dim}" for dim in dims)} float_data: [{values}] }}'

    model = encode_model(f"""ir_version: 9 opset_import {{ version: 20 }}
        graph {{ name: "g"
          node {{ op_type: "Gather" input: "table" input: "ids" output: "x" }}
          node {{ op_type: "MatMul" input: "x" input: "w" output: "y" }}
          {tensor("table", table)} {tensor("w", draw.normal(size=(WIDTH, CLASSES)))}
          input {{ name: "ids" type {{ tensor_type {{ elem_type: 7
            shape {{ dim {{ dim_value: 1 }} dim {{ dim_value: {SEQUENCE} }} }} }} }} }}
          output {{ name: "y" }} }}""", folder / "embedding.onnx")
    ids = draw.integers(0, ROWS, (BATCH, SEQUENCE))
    ids[draw.random(ids.shape) < 1 / 3] = 5
    data = folder / "data.safetensors"
    save_file({"ids": ids, "target": draw.integers(0, CLASSES, ids.shape)}, data)
    return model, data, table


def trained(folder, embedding, target, *flags):
    model, data, _ = embedding
    artifact, weights = folder / f"{target}.dtc", folder / f"{target}.safetensors"
    check_call("dtc", "compile", model, "--target", target, "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", 1, "--global-batch",
               BATCH, *flags, "-o", artifact)
    check_call("dtc-run", artifact, "--data", data, "--no-shuffle", "--steps", 2, "--save-weights", weights)
    return artifact, load_file(weights)


@pytest.mark.parametrize("flags", [["--devices", 1, "--plan", "dp=1"], ["--devices", 2, "--plan", "tp=2"], ["--devices", 2, "--plan", "dp=2"],
                                   ["--devices", 2, "--plan", "dp=2,zero=3"], ["--devices", 1, "--plan", "dp=1,micro_batch=8"]],
                         ids=["one", "tp", "dp", "zero", "microbatches"])
def test_embeddings_get_the_gradients_of_cpus(emulator, embedding, tmp_path, flags):  # noqa: F811
    _, expected = trained(tmp_path, embedding, "cpu", "--devices", 1)
    artifact, got = trained(tmp_path, embedding, "cuda", *flags)
    assert ".entry buckets_0(" in zipfile.ZipFile(artifact).read("code/kernels.ptx").decode()
    assert numpy.abs(expected["table"] - embedding[2]).max() > 1e-2
    for name, values in expected.items():
        assert numpy.abs(got[name] - values).max() < 1e-5 * numpy.abs(values).max(), name

