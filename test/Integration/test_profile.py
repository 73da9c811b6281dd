"""`dtc-run --profile` and `dtc inspect --compare`: what ranks did, beside what was predicted."""

import json
import os

import pytest

from conftest import BIN, MODELS, call, check_call

EMULATOR = BIN.parent / "lib" / "gpu-emulator"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    path = tmp_path_factory.mktemp("profile") / "m.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 2, "--target", "cpu", "--cluster", "cpu", "--plan",
               "dp=2,zero=3,micro_batch=4", "--loss", "cross_entropy", "--global-batch", 8, "-o", path)
    return path


@pytest.mark.parametrize("flags", [[], ["--processes"]])
def test_every_instruction_of_every_rank(artifact, tmp_path, flags):
    trace = tmp_path / "run.json"
    check_call("dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", 3, "--profile", trace, *flags)
    slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    facts = json.loads(check_call("dtc", "inspect", artifact, "--json").out)
    for rank in (0, 1):
        own = [event for event in slices if event["pid"] == rank]
        steps = [event for event in own if event["cat"] == "step"]
        assert [step["name"] for step in steps] == ["step 1", "step 2", "step 3"]
        for kind, count in facts["collectives"].items():
            assert sum(event["cat"] == kind for event in own) == 3 * count, kind
        assert sum(event["cat"] == "matmul" for event in own) == 3 * facts["library_calls"]["matmul"]
        begin, end = steps[0]["ts"], steps[-1]["ts"] + steps[-1]["dur"]
        assert all(begin <= event["ts"] and event["ts"] + event["dur"] <= end + 1 for event in own)


@pytest.mark.parametrize("flags", [[], ["--processes"]])
def test_gpus(tmp_path, monkeypatch, flags):
    """Times between events: on an emulated GPU those of the emulator. Each queue does one thing at a time."""
    monkeypatch.setenv("DTC_CUDA_LIBRARY_PATH", os.environ.get("DTC_CUDA_LIBRARY_PATH", str(EMULATOR)))
    artifact, trace = tmp_path / "m.dtc", tmp_path / "run.json"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", "--devices", 2, "--target", "cuda", "--plan", "dp=2,micro_batch=4",
               "--loss", "cross_entropy", "--global-batch", 8, "-o", artifact)
    check_call("dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", 3, "--profile", trace, *flags)
    facts = json.loads(check_call("dtc", "inspect", artifact, "--json").out)
    slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    for rank in (0, 1):
        own = [event for event in slices if event["pid"] == rank]
        steps = [event for event in own if event["cat"] == "step"]
        assert [step["name"] for step in steps] == ["step 1", "step 2", "step 3"]
        assert sum(event["cat"] == "matmul" for event in own) == 3 * facts["library_calls"]["matmul"]
        for kind, count in facts["collectives"].items():
            assert sum(event["cat"] == kind for event in own) == 3 * count, kind
        for queue in {event["tid"] for event in own}:
            events = [event for event in own if event["tid"] == queue]
            assert all(first["ts"] + first["dur"] <= second["ts"] + 0.01 for first, second in zip(events, events[1:]))
        begin, end = steps[0]["ts"], steps[-1]["ts"] + steps[-1]["dur"]
        assert all(begin - 1000 <= event["ts"] and event["ts"] + event["dur"] <= end + 1000 for event in own)
    measured = json.loads(check_call("dtc", "inspect", artifact, "--compare", trace, "--json").out)["measured"]
    assert 0 < measured["computing_s"] <= measured["step_time_s"]


def test_a_run_is_laid_over_the_prediction(artifact, tmp_path):
    trace = tmp_path / "run.json"
    check_call("dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", 3, "--profile", trace)
    both = json.loads(check_call("dtc", "inspect", artifact, "--compare", trace, "--json").out)
    predicted, measured = both["predicted"], both["measured"]
    for facts in (predicted, measured):
        parts = facts["computing_s"] + facts["exposed_communication_s"] + facts["waiting_s"]
        assert parts == pytest.approx(facts["step_time_s"], rel=1e-6)
        assert facts["computing_s"] > 0
    assert measured["kinds"]["all_gather"]["calls"] == 8
    text = check_call("dtc", "inspect", artifact, "--compare", trace).out
    assert text.splitlines()[0].split() == ["a", "step", "and", "rank", "predicted", "measured"]


def test_the_first_step_counts_for_no_figure(artifact, tmp_path):
    """It prepares much: libraries make their code in it."""
    def slices(begin: int, length: int) -> list[dict]:
        return [{"ph": "X", "pid": 0, "tid": 0, "ts": begin, "dur": length, "cat": kind} for kind in ("step", "matmul")]

    trace = tmp_path / "run.json"
    trace.write_text(json.dumps({"traceEvents": [*slices(0, 5000), *slices(5000, 100), *slices(5100, 300)]}))
    measured = json.loads(check_call("dtc", "inspect", artifact, "--compare", trace, "--json").out)["measured"]
    assert measured["step_time_s"] == measured["computing_s"] == pytest.approx(200e-6)
    assert measured["kinds"] == {"matmul": {"calls": 1.0, "seconds": pytest.approx(200e-6)}}


@pytest.mark.parametrize("text,why", [("{", "is not JSON"), ("{}", "no list traceEvents"),
                                      ('{"traceEvents": [{"ph": "X"}]}', "an event that dtc-run doesn't write"),
                                      ('{"traceEvents": []}', "has no steps")])
def test_what_is_no_profile_is_refused(artifact, tmp_path, text, why):
    trace = tmp_path / "run.json"
    trace.write_text(text)
    outcome = call("dtc", "inspect", artifact, "--compare", trace)
    assert outcome.code == 3
    assert str(trace) in outcome.error_line() and why in outcome.error_line()


def test_profile_writes_over_nothing_that_is_read(artifact):
    outcome = call("dtc-run", artifact, "--data", MODELS / "text.bin", "--steps", 1, "--profile", MODELS / "text.bin")
    assert outcome.code == 2
    assert "would write over" in outcome.error_line()
