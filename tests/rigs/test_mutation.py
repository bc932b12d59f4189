"""The mutation benchmark reports for each fault whether a test detected it, none did, or none reaches it."""

from collections import Counter
from pathlib import Path

import pytest
from benchmarks.mutation import Fate, OutOfTime, Workshop, report
from benchmarks.mutation_faults import places_of

SOURCE = """def grown(age):
    return age >= 18


def half(number):
    return number / 2 + 1


def never():
    return 1
"""
TESTS = """from shop import grown, half


def test_grown():
    assert grown(18)
    assert not grown(17)


def test_half():
    assert half(4)
"""
MODULE = Path("packages/one/shop.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in ((str(MODULE), SOURCE), ("tests/test_shop.py", TESTS)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_unreached_lines_are_reported_separately_and_the_time_limit_ends_a_run(folder: Path) -> None:
    workshop = Workshop(folder, seconds=300, wide_s=0)
    files = ["tests/test_shop.py"]
    workshop.learn(files)
    first = {place.line: place for place in reversed(places_of(SOURCE))}
    fates = [workshop.judge(MODULE, first[line], files)[0].fate for line in (2, 6, 10)]
    assert fates == [Fate.SEEN, Fate.SURVIVED, Fate.UNREACHED]
    assert (folder / MODULE).read_text() == SOURCE
    assert report({MODULE: Counter(fates)}).splitlines() == [
        f"   1 of    2  {MODULE}, and 1 that no test reaches",
        "   1 of    2  seen: 50 %, and 1 that no test reaches",
    ]
    workshop.until = 0
    with pytest.raises(OutOfTime):
        workshop.judge(MODULE, first[2], files)


def test_a_run_without_time_says_so() -> None:
    assert "give more --seconds" in report({})
