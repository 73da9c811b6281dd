"""docs/HowTo/AModelThatDoesNotImport.md, carried out in a copy of the converters."""

import re
import subprocess
import textwrap

from changed_build import ChangedBuild
from conftest import ROOT, encode_model

PAGE = (ROOT / "docs" / "HowTo" / "AModelThatDoesNotImport.md").read_text()
CONVERTERS = "lib/Import/ONNX/ConvertElementwise.cpp"


def test_an_operator_is_added_as_the_page_says(tmp_path):
    build = ChangedBuild(tmp_path, "lib/Import/ONNX")
    function = re.search(r"^    static LogicalResult \w+.*?^    }$", PAGE, re.S | re.M).group(0)
    build.insert(CONVERTERS, textwrap.dedent(function), before="void addElementwiseConverters(")
    build.insert(CONVERTERS, re.search(r'`(table\["\w+"\] = \w+;)`', PAGE).group(1), before="}\n\n} // namespace")
    dtc = build.link("bin/dtc", [build.compile(CONVERTERS)])

    encode_model(re.search(r"```\n(.*?)```", PAGE, re.S).group(1), tmp_path / "tripled.onnx")
    command = re.search(r"^    dtc (compile .*)$", PAGE, re.M).group(1).split()
    done = subprocess.run([dtc, *command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    three = re.search(r"(%\w+) = arith.constant dense<3\.0", done.stdout).group(1)
    assert re.search(rf"arith.mulf %arg0, {three}", done.stdout)
