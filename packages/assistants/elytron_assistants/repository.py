"""The space of a repository: one name for each, which its clones, worktrees and subfolders share.

Git's own files are read instead of asking the program: it costs less, and variables of a git hook do not mislead it.
"""

import hashlib
import re
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_READ_BYTES: Final = 1024 * 1024
_USUAL_PORTS: Final = frozenset({22, 80, 443, 9418})
_CASELESS_HOSTS: Final = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})
_SCP_FORM: Final = re.compile(r"(?:[^@/\s]+@)?([^:/\s]{2,}):(?!//)(\S+)")
"""`user@host:path`; a host of one letter is a drive of Windows."""


def repository_space(folder: Path, /) -> str | None:
    """Return the space of the repository that `folder` is in, or of the folder itself outside of one.

    Repositories are the same if they have the same `origin`; without one on a network, if they share a git directory.
    None for places that many projects share: the home folder, the root, and the folder of temporary files.
    """
    place = _existing_folder(folder)
    common = next((found for each in (place, *place.parents) if (found := _common_folder(each / ".git"))), None)
    if common is None:
        shared = {Path.home().resolve(), Path(tempfile.gettempdir()).resolve(), Path(place.anchor)}
        return None if place in shared else _space_name(f"path:{place}")
    origin = network_origin(_origin_url(common))
    return _space_name(f"git:{origin}" if origin is not None else f"path:{common}")


def network_origin(url: str, /) -> str | None:
    """Return host and path of a remote repository, the same for each form of its address; None if it is no remote."""
    if "://" in url:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return None
        if not host or parts.scheme == "file":
            return None
        host, path = host if port is None or port in _USUAL_PORTS else f"{host}:{port}", parts.path
    elif (match := _SCP_FORM.fullmatch(url)) is not None:
        host, path = match[1].lower(), match[2]
    else:
        return None
    path = path.strip("/").removesuffix(".git").rstrip("/")
    return f"{host}/{path.lower() if host in _CASELESS_HOSTS else path}"


def _space_name(identity: str) -> str:
    # A digest: the address of a private repository is no name to show to others of the store.
    return f"project-{hashlib.blake2b(identity.encode('utf-8', 'surrogateescape'), digest_size=6).hexdigest()}"


def _existing_folder(folder: Path) -> Path:
    """Return the folder, or if it is gone the nearest one above it, with links followed."""
    place = folder.absolute()
    while not place.is_dir() and place != place.parent:
        place = place.parent
    return place.resolve()


def _common_folder(dot_git: Path) -> Path | None:
    """Return the git directory that the worktrees of a repository share; None if `dot_git` is of none."""
    if dot_git.is_dir():
        return dot_git.resolve()
    pointer = _read_text(dot_git)
    if not pointer.startswith("gitdir:"):
        return None
    own = (dot_git.parent / pointer.removeprefix("gitdir:").strip()).resolve()
    # A worktree names the shared directory; a submodule has one of its own.
    shared = _read_text(own / "commondir").strip()
    return (own / shared).resolve() if shared else own


def _origin_url(common: Path) -> str:
    """Return the address of the remote `origin` in a repository's settings; empty if there is none."""
    section = ""
    for line in _read_text(common / "config").splitlines():
        text = line.strip()
        if text.startswith("["):
            section = text
        elif section == '[remote "origin"]' and (match := re.fullmatch(r'url\s*=\s*"?([^"]*?)"?', text)) is not None:
            return match[1]
    return ""


def _read_text(file: Path) -> str:
    """Return the text of a small file; empty if it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
