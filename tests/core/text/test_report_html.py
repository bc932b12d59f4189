"""Values in notebooks: escaped and bounded tables."""

import elytron
from elytron_core.contracts.memories import ControlDecision, ControlOutcome, MemoryControlReport
from elytron_core.text.report_html import report_html


def test_a_report_shows_its_items_and_escapes_every_text() -> None:
    with elytron.open("memory:", space="<b>ada</b>") as memory:
        memory.add("<script>alert(1)</script> the boat key")
        html = report_html(memory.recall("boat key"))
    assert "<script>" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; the boat key" in html
    assert "hits: 1" in html


def test_long_lists_and_texts_are_truncated_and_the_rest_counted() -> None:
    decision = ControlDecision(id="x" * 1_000, outcome=ControlOutcome.CHANGED)
    html = report_html(MemoryControlReport(space="ada", decisions=(decision,) * 70, changed=True))
    assert "decisions: 70" in html
    assert "<p>20 more</p>" in html
    assert html.count("<tr>") == 53
    assert "x" * 301 not in html


def test_an_empty_report_shows_its_name_and_set_fields() -> None:
    html = report_html(MemoryControlReport(space="ada", decisions=(), changed=False))
    assert "MemoryControlReport" in html
    assert "decisions" not in html
