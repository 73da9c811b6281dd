"""`--report`: a page that is well-formed, closed to the network, small, and says
what `--json` says."""

import base64
import hashlib
import html.parser
import json
import re
import shutil
import subprocess

import pytest

from conftest import MODELS, call, check_call, encode_model

VOID = {"meta", "rect", "path", "line", "br"}
PLANS = {
    "gpt2": ["--devices", 4, "--global-batch", 8],
    "llama": ["--devices", 4, "--plan", "pp=4,micro_batch=1", "--global-batch", 8],
    "mlp": ["--devices", 1, "--global-batch", 8],
    "resnet_tiny": ["--devices", 2, "--global-batch", 8],
}


class Page(html.parser.HTMLParser):
    """What a page has; fails where elements don't nest."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.figures: dict[str, float] = {}
        self.texts: list[str] = []
        self.text = text
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), attributes
        self.tags.append((tag, dict(attributes)))
        if tag == "data":
            self.figures[dict(attributes)["id"]] = float(dict(attributes)["value"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID, tag
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style = data
        else:
            self.texts.append(data)

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


@pytest.fixture(scope="module", params=PLANS)
def planned(request, tmp_path_factory):
    """The page of a plan and the answer in JSON."""
    path = tmp_path_factory.mktemp("report") / "plan.html"
    loss = "mse" if request.param == "mlp" else "cross_entropy"
    answer = check_call("dtc", "plan", MODELS / f"{request.param}.onnx", "--loss", loss,
                        *PLANS[request.param], "--report", path, "--json")
    return Page(path.read_text()), json.loads(answer.out), path


def test_figures_are_those_of_the_answer(planned):
    page, answer, _ = planned
    predicted = answer["predicted"]
    for name in ("step_time_s", "tokens_per_s_per_device", "mfu", "peak_memory_bytes",
                 "bubble_fraction"):
        if predicted[name] is not None:
            assert page.figures[name] == predicted[name], name
    assert page.figures["exposed_communication"] == predicted["exposed_communication_s"]
    assert page.figures["parameters"] == answer["model"]["parameters"]
    assert page.figures["devices"] == answer["devices"]
    memory = dict(predicted["memory"])
    assert memory.pop("cached") == 0 and "memory_cached" not in page.figures
    for kind, size in memory.items():
        assert page.figures[f"memory_{kind}"] == size
    times = sorted((use["time_s"] for use in answer["collectives"]), reverse=True)
    for i, seconds in enumerate(times[:40]):
        assert page.figures[f"collective{i}"] == seconds
    for i, other in enumerate(answer["alternatives"][:20]):
        assert page.figures[f"alternative{i}_step"] == other["predicted"]["step_time_s"]
        assert page.figures[f"alternative{i}_memory"] == other["predicted"]["peak_memory_bytes"]


def test_what_an_allocator_keeps_is_drawn(tmp_path):
    cluster, path = tmp_path / "cluster.yaml", tmp_path / "plan.html"
    cluster.write_text("device: h100\ndevices_per_node: 8\n"
                       "intra_node: {bandwidth_gbs: 450, latency_us: 5}\n"
                       "software: {compiled: false, caching_allocator: true}\n")
    planned = check_call("dtc", "plan", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--gpus", 2,
                         "--cluster", cluster, "--report", path, "--json").out
    cached = json.loads(planned)["predicted"]["memory"]["cached"]
    assert Page(path.read_text()).figures["memory_cached"] == cached > 0


def test_parts_add_up_to_the_step(planned):
    page, answer, _ = planned
    parts = [value for name, value in page.figures.items() if name.startswith("part_")]
    assert sum(parts) == pytest.approx(answer["predicted"]["step_time_s"], rel=1e-6)


def test_a_layer_shows_what_its_ranks_exchange(tmp_path):
    """Megatron's layer with sequence parallelism: two gathers and two reduce-scatters
    of the activations forward, of which a step has as many again backward."""
    path = tmp_path / "plan.html"
    answer = json.loads(check_call(
        "dtc", "plan", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--devices", 4, "--global-batch",
        8, "--plan", "dp=2,tp=2,sp=on,micro_batch=4", "--report", path, "--json").out)
    layers, size = 2, 4 * 32 * 64 * 4
    section = re.search('<section id="layer".*?</section>', path.read_text(), re.DOTALL)[0]
    shown = re.findall(r'<tr class="exchange">.*?<b>(\w+)</b> over tp of ([\d.]+) KiB', section, re.DOTALL)
    for kind in ("all_gather", "reduce_scatter"):
        assert shown.count((kind, f"{size / 1024:.1f}")) == 2
        assert sum(use["count"] for use in answer["collectives"]
                   if use["kind"] == kind and use["bytes"] == size) == 2 * 2 * layers
    assert len(shown) == 4


def test_an_explanation_says_what_choices_and_pins_cost(tmp_path):
    path = tmp_path / "plan.html"
    answer = json.loads(check_call(
        "dtc", "plan", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--devices", 4, "--global-batch",
        8, "--plan", "tp=4", "--explain", "--report", path, "--json").out)["explanation"]
    page = Page(path.read_text())
    for change in answer["changes"]:
        assert change["setting"] in page.texts
    assert any(text.startswith("tp=4 ") for text in page.texts)
    check_call("dtc", "plan", MODELS / "mlp.onnx", "--loss", "mse", "--report", path)
    assert "explanation" not in Page(path.read_text()).ids()


def test_nothing_is_loaded_or_run(planned):
    page, _, _ = planned
    policy = next(a["content"] for tag, a in page.tags
                  if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy == (f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
                      "form-action 'none'")
    assert page.tags.index(("meta", {"charset": "utf-8"})) < 4  # before any name
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "form", "use", "image"}
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
        assert attributes.get("href", "#").startswith("#"), attributes
    assert not re.search(r"https?:|url\(|@import|//", page.style)
    assert "http" not in re.sub("http-equiv", "", page.text)


def test_every_picture_has_words_and_every_link_its_end(planned):
    page, _, _ = planned
    ids = page.ids()
    assert len(ids) == len(set(ids))
    for tag, attributes in page.tags:
        for name in attributes.get("aria-labelledby", "").split():
            assert name in ids
        if tag == "svg":
            assert attributes.get("role") == "img" and attributes["aria-labelledby"] \
                or attributes.get("aria-hidden") == "true"
        if tag == "a":
            assert attributes["href"][1:] in ids
    classes = {name for _, attributes in page.tags for name in (attributes.get("class") or "").split()}
    unstyled = {"text", "other", "call"}
    assert classes - unstyled <= set(re.findall(r"\.([a-zA-Z][\w-]*)", page.style))


def test_pages_are_small_and_complete(planned):
    page, answer, path = planned
    assert path.stat().st_size < 200_000
    assert page.text.endswith("</html>\n")
    headings = [attributes["id"] for tag, attributes in page.tags if tag == "h2"]
    for part in ("plan", "cluster", "model", "timetable", "time", "memory", "collectives",
                 "alternatives", "glossary"):
        assert f"{part}-heading" in headings


def test_hostile_names_are_text(tmp_path):
    """From the file to the page: a parameter, a node and a tensor."""
    evil = r"</style><script>alert(1)</script>\" onload='x'"
    model = encode_model(f'''
        ir_version: 10 opset_import {{ version: 18 }}
        graph {{ name: "g"
          node {{ op_type: "MatMul" name: "{evil}" input: "x" input: "{evil}" output: "y" }}
          initializer {{ name: "{evil}" data_type: 1 dims: 4 dims: 8 raw_data: "{"a" * 128}" }}
          input {{ name: "x" type {{ tensor_type {{ elem_type: 1 shape {{ dim {{ dim_value: 2 }} dim {{ dim_value: 4 }} }} }} }} }}
          output {{ name: "y" type {{ tensor_type {{ elem_type: 1 shape {{ dim {{ dim_value: 2 }} dim {{ dim_value: 8 }} }} }} }} }}
        }}''', tmp_path / "<script>x<" "!--.onnx")
    path = tmp_path / "page.html"
    check_call("dtc", "plan", model, "--loss", "mse", "--devices", 2, "--report", path)
    page = Page(path.read_text())
    assert "script" not in {tag for tag, _ in page.tags}
    assert not any("onload" in attributes for _, attributes in page.tags)
    assert evil.replace("\\", "") in page.texts  # as it is, as text
    assert "<script>x<!--.onnx" in page.texts


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    command = ["dtc", "plan", MODELS / "mlp.onnx", "--loss", "mse", "--devices", 2, "--report"]
    outcome = call(*command, tmp_path / "missing" / "page.html")
    assert outcome.code == 1
    assert "missing/page.html" in outcome.error_line()
    path = tmp_path / "page.html"
    path.write_text("what was there")
    outcome = call(*command, path, "--plan", "tp=3")
    assert outcome.code == 2
    assert path.read_text() == "what was there"
    check_call(*command, path)
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_compile_writes_it_too(tmp_path):
    page = tmp_path / "page.html"
    check_call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "mse", "--devices", 2, "--emit", "plan",
               "-o", tmp_path / "plan.mlir", "--report", page)
    assert Page(page.read_text()).figures["devices"] == 2


def take_picture(browser, url, picture, width=1280, scheme="light"):
    return subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={picture.parent}/profile", f"--window-size={width},900",
         f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", f"--screenshot={picture}", url],
        capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A Chromium that can take a picture of an empty page."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium found")
    picture = tmp_path_factory.mktemp("blank") / "page.png"
    done = take_picture(found, "about:blank", picture)
    if not picture.exists():
        pytest.skip(f"Chromium doesn't run here, exit code {done.returncode}")
    return found


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_browser_has_nothing_to_complain_about(browser, planned, tmp_path, width, scheme):
    picture = tmp_path / "page.png"
    done = take_picture(browser, f"file://{planned[2]}", picture, width, scheme)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints
    assert picture.stat().st_size > 10_000
