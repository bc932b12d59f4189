"""Read a repository's shared directory, origin and first commit from Git's own files.

This is cheaper than running `git`, and the environment variables of a git hook cannot redirect it. `git` is run only if
loose objects do not lead to the first commit.
"""

import os
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

READ_BYTES: Final = 1024 * 1024
LOOSE_COMMITS: Final = 1_000
"""Number of commits read one by one before `git` is run instead."""
PROGRAM_S: Final = 1.0
_USUAL_PORTS: Final = frozenset({22, 80, 443, 9418})
_CASELESS_HOSTS: Final = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})
_SCP_FORM: Final = re.compile(r"(?:[^@/\s]+@)?([^:/\s]{2,}):(?!//)(\S+)")
"""Matches `user@host:path`. A one-letter host is a Windows drive, so it does not match."""
_URL_LINE: Final = re.compile(r'url\s*=\s*"?([^"]*?)"?', re.IGNORECASE)
_WORKTREE_LINE: Final = re.compile(r'worktree\s*=\s*"?([^"]*?)"?', re.IGNORECASE)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PROGRAM: Final = (
    *("--no-replace-objects", "-c", "core.fsmonitor=false", "rev-list", "--first-parent", "--max-parents=0", "HEAD"),
)


class GitPlace(NamedTuple):
    """A working copy's top folder, the git directory shared by its worktrees, and whether it is a submodule."""

    top: Path
    common: Path
    is_submodule: bool


def git_place(folder: Path, /) -> GitPlace | None:
    """Return the working copy whose top folder is `folder`, or None.

    Unpacked files could contain a `.git` file that points to any repository, so a pointer counts only if the git
    directory points back to the folder. Git writes such a back reference for worktrees and submodules.
    """
    dot_git = folder / ".git"
    if dot_git.is_dir():
        return GitPlace(folder, dot_git, is_submodule=False) if dot_git.resolve() == dot_git else None
    git_pointer = _read_text(dot_git)
    if not git_pointer.startswith("gitdir:"):
        return None
    own_git_folder = (folder / git_pointer.removeprefix("gitdir:").strip()).resolve()
    # A worktree names a shared directory. A submodule has its own, inside its parent's git directory.
    common_path = _read_text(own_git_folder / "commondir").strip()
    if not common_path:
        worktree = _config_value(own_git_folder, "[core]", _WORKTREE_LINE)
        points_back = bool(worktree) and (own_git_folder / worktree).resolve() == folder
        return GitPlace(folder, own_git_folder, is_submodule="modules" in own_git_folder.parts) if points_back else None
    common_folder, back_pointer = (
        (own_git_folder / common_path).resolve(),
        _read_text(own_git_folder / "gitdir").strip(),
    )
    points_back = (
        own_git_folder.parent == common_folder / "worktrees"
        and bool(back_pointer)
        and (own_git_folder / back_pointer).resolve() == dot_git
    )
    return GitPlace(folder, common_folder, is_submodule=False) if points_back else None


def origin_of(common: Path, /, *, parent: str | None = None) -> str | None:
    """Return host and path of the remote `origin`, or None if it has no network address.

    Relative addresses, which submodules use, are resolved against `parent`, the origin of the enclosing repository.
    """
    url = _config_value(common, '[remote "origin"]', _URL_LINE)
    if parent is not None and url.startswith(("./", "../")):
        host, _, path = parent.partition("/")
        joined_path = os.path.normpath(f"/{path}/{url}").replace(os.sep, "/")
        return network_origin(f"https://{host}{joined_path}")
    return network_origin(url)


def network_origin(url: str, /) -> str | None:
    """Return a remote's host and path in a form shared by all its addresses, or None for a local address."""
    if "://" in url:
        try:
            url_parts = urlsplit(url)
            host, port = url_parts.hostname, url_parts.port
        except ValueError:
            return None
        if not host or url_parts.scheme == "file":
            return None
        host, path = host if port is None or port in _USUAL_PORTS else f"{host}:{port}", url_parts.path
    elif (match := _SCP_FORM.fullmatch(url)) is not None:
        host, path = match[1].lower(), match[2]
    else:
        return None
    path = path.strip("/").removesuffix(".git").rstrip("/")
    return f"{host}/{path.lower() if host in _CASELESS_HOSTS else path}"


def root_commit(common: Path, /) -> str | None:
    """Return the first commit in the history of `HEAD`, or None if it cannot be read in time.

    The result is empty if there are no commits or the clone is shallow, because then the history starts elsewhere. Only
    first parents are followed: a merged history, such as a subtree's, belongs to another repository.
    """
    if (common / "shallow").exists():
        return ""
    commit = _head_commit(common)
    for _ in range(LOOSE_COMMITS):
        if not commit:
            break
        text = _loose_object(common, commit)
        if text is None:
            return _root_by_program(common)
        parent = next((line for line in text.split("\n\n", 1)[0].splitlines() if line.startswith("parent ")), None)
        if parent is None:
            return commit
        commit = parent.removeprefix("parent ").strip()
    return _root_by_program(common) if commit or (common / "reftable").is_dir() else ""


def _head_commit(common_folder: Path) -> str:
    """Return the commit id of `HEAD`, or an empty string before the first commit."""
    head_text = _read_text(common_folder / "HEAD").strip()
    if not head_text.startswith("ref:"):
        return head_text if _COMMIT.fullmatch(head_text) else ""
    name = head_text.removeprefix("ref:").strip()
    loose_commit = _read_text(common_folder / name).strip()
    packed_refs = (line.partition(" ") for line in _read_text(common_folder / "packed-refs").splitlines())
    commit = loose_commit or next((commit for commit, _, ref_name in packed_refs if ref_name.strip() == name), "")
    return commit if _COMMIT.fullmatch(commit) else ""


def _loose_object(common_folder: Path, commit: str) -> str | None:
    """Return the text of a loose commit object, or None if the commit is packed."""
    try:
        with (common_folder / "objects" / commit[:2] / commit[2:]).open("rb") as file:
            data = zlib.decompressobj().decompress(file.read(READ_BYTES), READ_BYTES)
    except (OSError, zlib.error):
        return None
    kind, _, body = data.partition(b"\0")
    return body.decode("utf-8", "replace") if kind.startswith(b"commit ") else None


def _root_by_program(common_folder: Path) -> str | None:
    program = shutil.which("git")
    # Windows also searches the current folder for programs, where a repository could place its own.
    if program is None or Path(program).resolve().is_relative_to(Path.cwd()):
        return None
    settings = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings |= {"GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        process = subprocess.run(  # noqa: S603 - no shell, and no argument comes from the repository
            [program, "--git-dir", str(common_folder), *_PROGRAM],
            env=settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROGRAM_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    commit = process.stdout.decode("ascii", "replace").strip()
    return commit if _COMMIT.fullmatch(commit) else None


def _config_value(common_folder: Path, header: str, pattern: re.Pattern[str]) -> str:
    """Return the first value in a config section whose line matches `pattern`, or an empty string."""
    section = ""
    for line in _read_text(common_folder / "config").splitlines():
        text = line.strip()
        if text.startswith("["):
            name, _, value_text = text.partition(" ")
            section = f"{name.lower()} {value_text}".strip()
        elif section == header and (match := pattern.fullmatch(text)) is not None:
            return match[1]
    return ""


def _read_text(file: Path) -> str:
    """Return a small file's text, or an empty string if it cannot be read."""
    try:
        # Opening a named pipe would block.
        if not file.is_file():
            return ""
        with file.open("rb") as text_file:
            return text_file.read(READ_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
