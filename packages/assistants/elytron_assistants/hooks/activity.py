"""The record of hook activity: a small file per session, totals per repository, and where hooks are paused.

No file contains the user's words or memories. All files are in a folder of the user's own, which repositories cannot
choose.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import Final, TypeVar

from pydantic import ValidationError

from elytron_assistants.project_identity import working_copy
from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError, InvalidJson, StoreUrlInvalid, UnreadableFile
from elytron_core.model import Value
from elytron_store import parse_url
from elytron_store.file.disk import locked_file
from elytron_store.private_files import read_own_file, replace_file

SESSIONS_KEPT: Final = 200
"""Maximum number of session files. The counts of older ones are added to their repository's totals."""
SHOWN_KEPT: Final = 500
PAUSED: Final = "paused"
_FILE_BYTES: Final = 1024 * 1024
_WAIT_S: Final = 0.5
_TOTALS, _PAUSES, _LOCK, _KEY = "totals.json", "paused.json", "lock", "key"
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 12

ValueT = TypeVar("ValueT", bound=Value)


class ActivityCounts(Value):
    """What hooks did. `recalled` counts prompts that got a block; CPU time is that of the hooks' own processes."""

    prompts: int = 0
    recalled: int = 0
    added_chars: int = 0
    shown_hits: int = 0
    used_hits: int = 0
    """Number of a prompt's hits whose words occur in the reply."""
    stored_turns: int = 0
    cpu_ms: int = 0
    prompt_cpu_ms: int = 0

    def __add__(self, other: "ActivityCounts", /) -> "ActivityCounts":
        """Return the field-wise sums."""
        return ActivityCounts(**{name: count + getattr(other, name) for name, count in self})


class SessionActivity(Value):
    """What hooks did in one session, and what its model was shown since its context began or was compacted."""

    host: str
    store: str = ""
    """Digest of the address of the store or server."""
    repository: str = ""
    """The space that the session's turns are stored in."""
    label: str = ""
    started_at: Instant = Instant(0)
    changed_at: Instant = Instant(0)
    counts: ActivityCounts = ActivityCounts()
    shown_lines: tuple[str, ...] = ()
    """Digests of the lines that were shown, keyed with the folder's key."""
    shown_ids: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    """Ids of the memories shown at the last prompt, until its reply is stored."""
    digest: str = ""
    """Digest of the block shown at the start."""
    has_start: bool = False
    """True if the start of the context was answered, even with an empty block."""
    is_compacted: bool = False
    """True if the session's own turns may be missing from its context."""
    notice: str = ""
    """Digest of the last reported failure, which is not reported again, or `PAUSED`."""

    def with_shown(self, ids: Iterable[str], lines: Iterable[str], /) -> "SessionActivity":
        """Return a copy with these memories and lines added to those shown."""
        shown_ids = tuple(dict.fromkeys((*self.shown_ids, *ids)))[-SHOWN_KEPT:]
        digests = tuple(dict.fromkeys((*self.shown_lines, *lines)))[-SHOWN_KEPT:]
        return self.model_copy(update={"shown_ids": shown_ids, "shown_lines": digests})

    def with_new_context(self, *, is_compacted: bool) -> "SessionActivity":
        """Return a copy for a context that contains nothing shown before."""
        update = {"shown_ids": (), "shown_lines": (), "digest": "", "has_start": False, "is_compacted": is_compacted}
        return self.model_copy(update=update)


class RepositoryActivity(Value):
    """What hooks did in all sessions of one repository in one store."""

    store: str
    repository: str
    label: str = ""
    hosts: tuple[str, ...] = ()
    sessions: int = 0
    started_at: Instant = Instant(0)
    changed_at: Instant = Instant(0)
    counts: ActivityCounts = ActivityCounts()

    def with_session(self, session: SessionActivity, /) -> "RepositoryActivity":
        """Return the totals with one more session."""
        start_times = [at for at in (self.started_at, session.started_at) if at]
        return self.model_copy(
            update={
                "label": session.label or self.label,
                "hosts": tuple(sorted({*self.hosts, session.host})),
                "sessions": self.sessions + 1,
                "started_at": min(start_times, default=Instant(0)),
                "changed_at": max(self.changed_at, session.changed_at),
                "counts": self.counts + session.counts,
            }
        )


class ActivityTotals(Value):
    """The totals of sessions whose files were deleted."""

    repositories: tuple[RepositoryActivity, ...] = ()

    def with_session(self, session: SessionActivity, /) -> "ActivityTotals":
        """Return the totals with one more session."""
        activity_key = session.store, session.repository
        previous_activity = next(
            (one for one in self.repositories if (one.store, one.repository) == activity_key), None
        )
        updated_activity = (
            previous_activity or RepositoryActivity(store=activity_key[0], repository=activity_key[1])
        ).with_session(session)
        return ActivityTotals(
            repositories=(*(one for one in self.repositories if one != previous_activity), updated_activity)
        )


class PausedPlaces(Value):
    """Git directories and folders in which hooks do nothing."""

    paths: tuple[str, ...] = ()


class ActivityFolder:
    """The record's files in one folder."""

    def __init__(self, folder: Path, /) -> None:
        self.folder = folder

    def line_key(self) -> bytes:
        """Return the key for line digests, without which nobody can match digests to texts.

        If no key can be stored, every call returns a new one, and a line may be shown twice.
        """
        file = self.folder / _KEY
        with suppress(OSError):
            if len(key := read_own_file(file, size=_KEY_BYTES) or b"") == _KEY_BYTES:
                return key
        key = token_bytes(_KEY_BYTES)
        with suppress(ElytronError, OSError), self._locked():
            if file.exists() and len(stored_key := read_own_file(file, size=_KEY_BYTES) or b"") == _KEY_BYTES:
                return stored_key
            replace_file(file, key)
        return key

    def read(self, host: str, session: str, /) -> SessionActivity:
        """Return a session's record, or an empty one."""
        return _read_value(self._session_file(host, session), SessionActivity) or SessionActivity(host=host)

    def change(
        self, host: str, session: str, change: Callable[[SessionActivity], SessionActivity], /, *, at: Instant
    ) -> SessionActivity:
        """Apply `change` to a session's record, store the result and return it. Raises StoreError, OSError."""
        file = self._session_file(host, session)
        with self._locked():
            previous_session = _read_value(file, SessionActivity)
            changed_session = change(previous_session or SessionActivity(host=host, started_at=at))
            _write_value(file, changed_session.model_copy(update={"changed_at": at}))
            if previous_session is None:
                self._drop_oldest()
        return changed_session

    def repositories(self) -> tuple[RepositoryActivity, ...]:
        """Return the totals of all sessions by repository, most recently changed first."""
        totals = _read_value(self.folder / _TOTALS, ActivityTotals) or ActivityTotals()
        for file in self._session_files():
            if (session := _read_value(file, SessionActivity)) is not None:
                totals = totals.with_session(session)
        return tuple(sorted(totals.repositories, key=lambda one: -one.changed_at))

    def forget(self, store: str, repository: str, /) -> None:
        """Remove the records of a repository in a store. Raises StoreError, OSError."""
        activity_key = store, repository
        if not self.folder.exists():
            return
        with self._locked():
            for file in self._session_files():
                session = _read_value(file, SessionActivity)
                if session is not None and (session.store, session.repository) == activity_key:
                    file.unlink(missing_ok=True)
            totals = _read_value(self.folder / _TOTALS, ActivityTotals) or ActivityTotals()
            other_repositories = tuple(
                one for one in totals.repositories if (one.store, one.repository) != activity_key
            )
            if other_repositories != totals.repositories:
                _write_value(self.folder / _TOTALS, ActivityTotals(repositories=other_repositories))

    def is_paused(self, folder: Path | None, /) -> bool:
        """Return whether hooks are paused in a folder. If the pauses cannot be read, they are paused everywhere."""
        paths = self._paused_paths()
        if folder is None or not paths:
            return paths is None
        resolved_folder = folder.resolve()
        enclosing_repositories = {
            _pause_path(parent) for parent in (resolved_folder, *resolved_folder.parents) if (parent / ".git").exists()
        }
        return not enclosing_repositories.isdisjoint(paths) or any(
            resolved_folder.is_relative_to(path) for path in paths
        )

    def _paused_paths(self) -> tuple[str, ...] | None:
        """Return the paused places, or None if they cannot be read."""
        file = self.folder / _PAUSES
        if not file.exists():
            return ()
        paused_places = _read_value(file, PausedPlaces)
        return paused_places.paths if paused_places is not None else None

    def pause(self, folder: Path, /, *, is_paused: bool) -> str:
        """Pause or resume hooks in a folder's repository, or in the folder itself without one, and return its path.

        Raises UnreadableFile if the pauses cannot be read.
        """
        path = _pause_path(folder.resolve())
        with self._locked():
            paths = self._paused_paths()
            if paths is None:
                raise UnreadableFile(name=_PAUSES, problem=f"in {self.folder} is damaged: delete it to end all pauses")
            other_paths = tuple(other for other in paths if other != path)
            _write_value(self.folder / _PAUSES, PausedPlaces(paths=(*other_paths, path) if is_paused else other_paths))
        return path

    @contextmanager
    def _locked(self) -> Generator[None]:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with locked_file(self.folder / _LOCK, wait_s=_WAIT_S):
            yield

    def _session_file(self, host: str, session: str) -> Path:
        name = digest_of(f"{host}\n{session}")
        return self.folder / f"{name}.json"

    def _session_files(self) -> list[Path]:
        """Return the session files, most recently changed first."""
        files = (file for file in self.folder.glob("*.json") if file.name not in {_TOTALS, _PAUSES})
        return sorted(files, key=_changed_ns, reverse=True)

    def _drop_oldest(self) -> None:
        old_files = self._session_files()[SESSIONS_KEPT:]
        if old_files:
            totals = _read_value(self.folder / _TOTALS, ActivityTotals) or ActivityTotals()
            for file in old_files:
                if (session := _read_value(file, SessionActivity)) is not None:
                    totals = totals.with_session(session)
            _write_value(self.folder / _TOTALS, totals)
            for file in old_files:
                file.unlink(missing_ok=True)


def read_activity(folder: Path, /) -> tuple[RepositoryActivity, ...]:
    """Return what hooks did in each repository, most recently changed first."""
    return ActivityFolder(folder).repositories()


def store_digest(url: str, /) -> str:
    """Return the record's name for a store or server. It does not reveal the address.

    A local store is identified by its path, so every form of its address gives the same name.
    """
    with suppress(StoreUrlInvalid):
        if (path := parse_url(url).path) is not None:
            return digest_of(str(path.resolve()))
    return digest_of(url)


def digest_of(text: str, /, *, key: bytes = b"") -> str:
    """Return a short digest of a text. Pass `key` if the text contains anyone's words."""
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES, key=key).hexdigest()


def _changed_ns(file: Path) -> int:
    with suppress(OSError):  # another process deleted it
        return file.stat().st_mtime_ns
    return 0


def _pause_path(folder: Path) -> str:
    git = working_copy(folder)
    return str(git.common if git is not None else folder)


def _read_value(file: Path, kind: type[ValueT]) -> ValueT | None:
    """Read a value from a file. Return None if it is missing, from another version, or owned by another user."""
    try:
        data = read_own_file(file, size=_FILE_BYTES)
        return kind.model_validate(strict_json.parse_json(data or b"", limit=limits.JSON_BYTES))
    except (OSError, InvalidJson, ValidationError):
        return None


def _write_value(file: Path, value: Value) -> None:
    replace_file(file, value.model_dump_json(exclude_defaults=True).encode())
