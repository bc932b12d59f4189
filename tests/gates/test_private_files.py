"""Files are created in one way: readable only by their owner, whatever the umask."""

import ast
from collections.abc import Iterator

from tests.gates.tree import files, nodes, shown

MAKERS = ("packages/store", "packages/sdk", "packages/adapter", "packages/gateway", "packages/agent", "packages/cli")
OF_PEOPLE = {
    "packages/cli/elytron_cli/commands/agents/hooks.py",
    "packages/cli/elytron_cli/help_pages.py",
    "packages/sdk/elytron/embedding/installation.py",
}
"""Write files that are not memory: a host's settings, help pages, a downloaded model."""
OWN_WAYS = {"packages/store/elytron_store/private_files.py", "packages/cli/elytron_cli/chat/conversation.py"}


def open_makers(node: ast.AST) -> Iterator[int]:
    """Yield the line of a call that creates a file without stating who may read it."""
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    words = [one.value for one in (*node.args, *(key.value for key in node.keywords)) if isinstance(one, ast.Constant)]
    is_making = any(isinstance(word, str) and word[:1] in {"w", "x", "a"} and len(word) <= 3 for word in words)
    of_zip = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "archive"
    is_private = of_zip or any(key.arg == "opener" for key in node.keywords)
    if name in {"write_text", "write_bytes"} or (name == "open" and is_making and not is_private):
        yield node.lineno
    if name == "open" and "O_CREAT" in ast.dump(node):
        yield node.lineno


def test_no_file_is_created_readable_by_others() -> None:
    wrong = [
        f"{shown(path)}:{line}"
        for path in files(*MAKERS, suffix=".py")
        if shown(path) not in OF_PEOPLE | OWN_WAYS
        for node in nodes(path)
        for line in open_makers(node)
    ]
    assert wrong == []
