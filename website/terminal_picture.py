"""Draw what a command prints at a terminal as an SVG: `python website/terminal_picture.py docs/images/demo.svg`.

The picture refers to no font or address of others, so that showing it makes no request.
"""

import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 100
LINES = 34
COMMAND = "uv run elytron demo"
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main(target: Path, /) -> None:
    """Run the demo in an empty folder and write its first lines to `target`."""
    program = Path(sys.executable).with_name("elytron")
    with tempfile.TemporaryDirectory() as folder:
        environment = {"COLUMNS": str(WIDTH), "PATH": str(program.parent), "HOME": folder}
        done = subprocess.run(
            [program, "demo"], cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=True
        )
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(Text.assemble(("$ ", "bold green"), (COMMAND, "bold")))
    for line in done.stdout.splitlines()[:LINES]:
        question = re.match(r"\d+\. ", line)
        console.print(Text(line.rstrip(), style="bold" if question else "green" if "✓" in line else ""))
    console.print(Text("..."))
    picture = console.export_svg(title="elytron demo", unique_id="demo")
    target.write_text(_FONT_FACE.sub("", picture).replace("Fira Code", "ui-monospace"), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
