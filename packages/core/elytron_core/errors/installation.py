"""How an extra is added to this installation."""

import sys
from importlib.util import find_spec


def install_hint(
    extra: str,
    /,
    *,
    place: str = __file__,
    prefix: str = sys.prefix,
    base_prefix: str = sys.base_prefix,
    has_pip: bool | None = None,
) -> str:
    """Return how to add `extra` to the installation at `place`, whose interpreter has these prefixes, perhaps pip."""
    folders = prefix.replace("\\", "/").split("/")
    if "site-packages" not in place and "dist-packages" not in place:
        return f"in the checkout, run `uv sync --inexact --extra {extra}` or `pip install '.[{extra}]'`"
    if "uv" in folders and "tools" in folders:
        command, where = "uv tool install", ""
    elif "pipx" in folders:
        command, where = "pipx install --force", ""
    else:
        has_pip = find_spec("pip") is not None if has_pip is None else has_pip
        command = "pip install" if has_pip else "uv pip install"  # uv makes environments without pip
        where = " in its virtual environment" if prefix != base_prefix else ", in a container as a step of its image"
    return f"run `{command} 'elytron[{extra}]'`{where} (from a checkout: '.[{extra}]')"
