"""Orders of the axes on the devices: other ranks work together, and compute the same."""

import pytest

from conftest import compare_steps, reference


@pytest.mark.parametrize("model,devices,plan,order", [
    ("gpt2", 4, "dp=2,tp=2", "dp-tp-cp-ep-pp"),
    ("llama", 4, "dp=2,tp=2,micro_batch=2", "dp-cp-ep-pp-tp"),
    ("gpt2", 4, "pp=2,dp=2,schedule=1f1b,micro_batch=1", "pp-tp-cp-ep-dp"),
])
def test_an_order_changes_no_number(trainer, model, devices, plan, order):
    expected = reference(model, "adamw")
    runs = [trainer.train(model, model, *expected["flags"], devices=devices, plan=f"{plan}{more}")
            for more in ("", f",order={order}")]
    compare_steps(runs[1], expected, loss=1e-4, norm=1e-3)
    for key in ("loss", "grad_norm"):
        assert runs[0].column(key).tolist() == runs[1].column(key).tolist(), key
    assert runs[0].artifact.read_bytes() != runs[1].artifact.read_bytes()
