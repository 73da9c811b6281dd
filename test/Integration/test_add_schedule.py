"""docs/HowTo/AddASchedule.md, carried out in a copy of the sources."""

import re
import subprocess

from changed_build import ChangedBuild
from conftest import BIN, ROOT

PAGE = (ROOT / "docs" / "HowTo" / "AddASchedule.md").read_text()
TESTS = ("Descriptor", "Messages", "Schedule")


def compiler() -> str:
    cache = (BIN.parent / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M).group(1)


def test_a_schedule_is_a_file_and_a_line(tmp_path):
    build = ChangedBuild(tmp_path, "include/dtc/Schedule", "lib/Schedule", "test/Unit/Schedule")
    path = re.search(r"`(lib/Schedule/Kinds/\w+\.cpp)`", PAGE).group(1)
    (tmp_path / path).write_text(re.search(r"```cpp\n(.*?)```", PAGE, re.S).group(1))
    definitions = tmp_path / re.search(r"`(include/dtc/Schedule/\w+\.def)`", PAGE).group(1)
    line = re.search(r"^ +(DTC_SCHEDULE\(\w+\))$", PAGE, re.M).group(1)
    definitions.write_text(definitions.read_text().replace("#undef", f"{line}\n#undef"))

    name = re.search(r'\.name = "(\w+)"', PAGE).group(1)
    (tmp_path / "Named.cpp").write_text(f"""
        #include "dtc/Schedule/Descriptor.h"
        #include <gtest/gtest.h>
        TEST(Added, IsKnown) {{ EXPECT_TRUE(dtc::schedule::scheduleFromName("{name}")); }}""")
    sources = sorted(str(file.relative_to(tmp_path)) for file in (tmp_path / "lib" / "Schedule").rglob("*.cpp"))
    sources += ["Named.cpp", *(f"test/Unit/Schedule/{test}Test.cpp" for test in TESTS)]
    objects = [build.compile(source, like="test/Unit/Schedule/ScheduleTest.cpp") for source in sources]
    program = tmp_path / "tests"
    subprocess.run([compiler(), *objects, "-lgtest", "-lgtest_main", "-pthread", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "Added.IsKnown" in done.stdout
