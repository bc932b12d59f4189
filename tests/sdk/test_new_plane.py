"""A new plane is a module and one line for each of its declarations, as `docs/contributors/adding-a-plane.md` says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from elytron.documents.planes import HOMES
from elytron_core.planes.space import COLLECTIONS

ROOT = Path(__file__).parents[2]
CORE, SDK = Path("core/elytron_core"), Path("sdk/elytron")
HOME = """\
    PlaneHome(RecallPlane.POEM, poems.POEMS, poems.ID_WORD, poems.Poem, reach=PlaneReach.RECALL,
         title=lambda poem: poem.title, privacy=lambda poem: poem.privacy,
         key=lambda space, poem: space.tag("poem", poem.title),
         public=lambda poem: poem if poem.privacy is FactPrivacy.PUBLIC else None),
"""
LINES = (
    (CORE / "contracts/recall.py", '    TRANSCRIPT = "transcript"\n', '    POEM = "poem"\n'),
    (CORE / "planes/space.py", "    SpaceCollection(SPACE),\n", '    SpaceCollection("poems"),\n'),
    (
        SDK / "documents/planes.py",
        "from elytron_core.planes import candidates, continuity, facts, records, skills, subjects, tools, transcript\n",
        "from elytron_core.planes import poems\n",
    ),
    (
        SDK / "documents/planes.py",
        "_DECLARED = (\n",
        HOME,
    ),
)
"""Below `packages`: a file, a line that it has, and what is added after it."""


def with_poems(packages: Path) -> None:
    """Copy core and sdk, compiled, to `packages`, with the plane of poems declared in them."""
    for part in (CORE, SDK):
        shutil.copytree(ROOT / "packages" / part, packages / part)
    shutil.copy(ROOT / "tests/sdk/poems.py", packages / CORE / "planes/poems.py")
    for path, before, line in LINES:
        text = (packages / path).read_text()
        assert text.count(before) == 1
        (packages / path).write_text(text.replace(before, before + line))


def test_each_planes_documents_are_in_a_declared_collection() -> None:
    assert HOMES.keys() <= set(COLLECTIONS)


def test_a_plane_with_one_declaration_supports_every_operation(tmp_path: Path) -> None:
    with_poems(tmp_path)
    places = [str(tmp_path / part.parent) for part in (CORE, SDK)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/sdk/poem_worker.py"), str(tmp_path)],
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == {
        "got": ["poem", "Quince", "The quince is ripe in the north.", "mail", "c", "public"],
        "listed": [["Quince"], ["Quince", "Secret"]],
        "recalled": ["Quince"],
        "history": ["added"],
        "exported public": [1, 1],
        "exported whole": [2, None],
        "forgotten": [[], []],
        "erased": [["Secret"], 1],
        "got again": None,
        "brought": [1, ["Quince"], ["Quince"]],
        "restored": [2, ["Quince", "Secret"], ["Quince"]],
    }
