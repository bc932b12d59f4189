"""Output in any code page or locale is UTF-8, on both streams, as text and as JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = "from elytron_cli.main import run_command_line; run_command_line()"
TEXT = "naïve café 🦊 日本"
PLACES = {
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "cp437": {"PYTHONIOENCODING": "cp437"},
    "cp932": {"PYTHONIOENCODING": "cp932:strict"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "posix": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


def run(folder: Path, place: str, *arguments: str, sent: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ELYTRON_", "PYTHON", "LC_"))}
    command = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(
        command, cwd=folder, input=sent, capture_output=True, check=False, env={**kept, **PLACES[place]}
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_text_is_stored_and_shown_in_any_code_page(tmp_path: Path, place: str) -> None:
    store = ("--store", "m.db")
    message = json.dumps({"role": "user", "content": TEXT}, ensure_ascii=False).encode()
    assert run(tmp_path, place, "import", "-", *store, sent=message + b"\n").returncode == 0
    recalled = run(tmp_path, place, "recall", "café", *store, "--json")
    assert json.loads(recalled.stdout)["hits"][0]["text"] == TEXT
    refused = run(tmp_path, place, "get", "🦊", *store)
    assert (refused.returncode, b"Unicode" in refused.stderr) == (3, False)
