"""Reports as plain text: a table, and beneath it each difference in words."""

from collections.abc import Iterator, Sequence

from elytron_replay.gates.coverage_gate import GateReport
from elytron_replay.matrix import MatrixReport, MatrixRow, StoreDifference

FINGERPRINT_DIGITS = 12
SHOWN_PER_FIXTURE = 20
HEADINGS = ("fixture", "fingerprint")


def render(report: MatrixReport, /) -> str:
    """Return `report` as a table of fixtures by stores, followed by what differs; it ends without a line break."""
    first, last = HEADINGS
    table = [(first, *report.stores, last), *(_line(row, report.stores) for row in report.rows)]
    equal = sum(row.ok for row in report.rows)
    lines = [*_columns(table), "", f"{equal} of {len(report.rows)} fixtures equal on {', '.join(report.stores)}"]
    for row in report.rows:
        lines += _differences(row)
    return "\n".join(lines)


def render_gate(report: GateReport, /) -> str:
    """Return `report` as a table of operations and the fixtures that exercise them, and what is missing."""
    exercised = report.exercised.items()
    rows = [(name, str(len(found)), "demanded" if name in report.demanded else "") for name, found in exercised]
    table = [("operation", "fixtures", ""), *rows]
    verdict = "every demanded operation is exercised" if report.ok else f"not exercised: {', '.join(report.missing)}"
    return "\n".join((*_columns(table), "", verdict))


def _line(row: MatrixRow, stores: Sequence[str]) -> tuple[str, ...]:
    fingerprint = f"{row.fingerprint[:FINGERPRINT_DIGITS] or '-'} {row.recording.value}"
    return (row.fixture, *(row.verdicts[store].value for store in stores), fingerprint)


def _columns(table: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _differences(row: MatrixRow) -> Iterator[str]:
    if row.ok:
        return
    yield ""
    yield f"{row.fixture}: {row.title}"
    if not row.differences:
        yield "  no fingerprints are recorded: look at the story, then run `elytron replay --record`"
    for found in row.differences[:SHOWN_PER_FIXTURE]:
        yield from _difference(found)
    left = len(row.differences) - SHOWN_PER_FIXTURE
    if left > 0:
        yield f"  and {left} more"


def _difference(found: StoreDifference) -> Iterator[str]:
    place = f"step {found.step} ({found.operation})" if found.step is not None else "at the end"
    width = max(len(found.left_side), len(found.right_side))
    yield f"  {place}: {found.path or 'the whole report'}"
    yield f"    {found.left_side.ljust(width)}  {found.left}"
    yield f"    {found.right_side.ljust(width)}  {found.right}"
