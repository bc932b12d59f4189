"""Output in any code page or locale is UTF-8, on both streams, as text and as JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import sys
from elytron_cli.main import run_command_line

arguments, ends = sys.argv[1:], []
while arguments:
    end = arguments.index("--then") if "--then" in arguments else len(arguments)
    sys.argv[1:], arguments = arguments[:end], arguments[end + 1 :]
    try:
        run_command_line()
    except SystemExit as ended:
        ends.append(ended.code or 0)
    print(flush=True)
print(*ends)
"""
TEXT = "naïve café 🦊 日本"
PLACES = {
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "cp437": {"PYTHONIOENCODING": "cp437"},
    "cp932": {"PYTHONIOENCODING": "cp932:strict"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "posix": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize("place", PLACES)
def test_a_text_is_stored_and_shown_in_any_code_page(tmp_path: Path, place: str) -> None:
    """One process does it all: it sets its streams when it begins."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ELYTRON_", "PYTHON", "LC_"))}
    commands = (("import", "-"), ("recall", "café", "--json"), ("get", "🦊"))
    words = [word for command in commands for word in ("--then", *command, "--store", "m.db")][1:]
    message = json.dumps({"role": "user", "content": TEXT}, ensure_ascii=False).encode()
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], cwd=tmp_path, input=message + b"\n", capture_output=True, check=True,
        env={**kept, **PLACES[place]},
    )  # fmt: skip
    _, recalled, ends = done.stdout.decode().strip().split("\n\n")
    assert json.loads(recalled)["hits"][0]["text"] == TEXT
    assert (ends.split(), b"Unicode" in done.stderr) == (["0", "0", "3"], False)
