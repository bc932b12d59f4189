"""Where the power rig cannot run, it says why and runs nothing."""

import pytest
from benchmarks.rigs import images, power


def test_without_mountable_images_the_rig_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(images, "why_not", lambda: "mounting an image needs root")
    assert power.main(["--cuts", "1"]) == 0
    assert capsys.readouterr().out == "power: not run: mounting an image needs root\n"
