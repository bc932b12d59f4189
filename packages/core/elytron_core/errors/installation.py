"""How an extra is added to this installation."""

import sys


def install_hint(
    extra: str, /, *, place: str = __file__, prefix: str = sys.prefix, base_prefix: str = sys.base_prefix
) -> str:
    """Return how to add `extra` to the installation at `place`, whose interpreter has these prefixes."""
    folders = prefix.replace("\\", "/").split("/")
    if "site-packages" not in place and "dist-packages" not in place:
        return f"in the checkout, run `uv sync --inexact --extra {extra}` or `pip install '.[{extra}]'`"
    if "uv" in folders and "tools" in folders:
        command, where = "uv tool install", ""
    elif "pipx" in folders:
        command, where = "pipx install --force", ""
    else:
        command = "pip install"
        where = " in its virtual environment" if prefix != base_prefix else ", in a container as a step of its image"
    return f"run `{command} 'elytron[{extra}]'`{where} (from a checkout: '.[{extra}]')"
