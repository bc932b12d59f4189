"""The record of what hooks did: one small file for each session, sums for each repository, and where hooks are paused.

No file has words of the user or of a memory in it. All are in a folder of the user's own, which no repository chooses.
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
"""Files of sessions; what an older one counted is added to the sums of its repository."""
SHOWN_KEPT: Final = 500
PAUSED: Final = "paused"
_FILE_BYTES: Final = 1024 * 1024
_WAIT_S: Final = 0.5
_TOTALS, _PAUSES, _LOCK, _KEY = "totals.json", "paused.json", "lock", "key"
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 12

ValueT = TypeVar("ValueT", bound=Value)


class ActivityCounts(Value):
    """What hooks did. `recalled` counts prompts with a block, and CPU time is that of the hooks' own processes."""

    prompts: int = 0
    recalled: int = 0
    added_chars: int = 0
    shown_hits: int = 0
    used_hits: int = 0
    """Hits of a prompt whose words stand in the reply."""
    stored_turns: int = 0
    cpu_ms: int = 0
    prompt_cpu_ms: int = 0

    def __add__(self, other: "ActivityCounts", /) -> "ActivityCounts":
        """Return the sums."""
        return ActivityCounts(**{name: count + getattr(other, name) for name, count in self})


class SessionActivity(Value):
    """What hooks did in one session, and what its model was shown since its context was last begun or compacted."""

    host: str
    store: str = ""
    """Digest of the address of the store or server."""
    repository: str = ""
    """The space that its turns are stored in."""
    label: str = ""
    started_at: Instant = Instant(0)
    changed_at: Instant = Instant(0)
    counts: ActivityCounts = ActivityCounts()
    shown_lines: tuple[str, ...] = ()
    """Digests of the lines that were shown, under the key of the folder."""
    shown_ids: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    """Ids of the memories shown at the last prompt, until its reply is stored."""
    digest: str = ""
    """Digest of the block shown at the start."""
    has_start: bool = False
    """True if the start of its context was answered, be it with nothing."""
    is_compacted: bool = False
    """True if the session's own turns may be gone from its context."""
    notice: str = ""
    """Digest of the failure that was reported last, which is not reported again; or `PAUSED`."""

    def with_shown(self, ids: Iterable[str], lines: Iterable[str], /) -> "SessionActivity":
        """Return the record with memories and lines that were shown."""
        shown_ids = tuple(dict.fromkeys((*self.shown_ids, *ids)))[-SHOWN_KEPT:]
        digests = tuple(dict.fromkeys((*self.shown_lines, *lines)))[-SHOWN_KEPT:]
        return self.model_copy(update={"shown_ids": shown_ids, "shown_lines": digests})

    def with_new_context(self, *, is_compacted: bool) -> "SessionActivity":
        """Return the record of a session whose model has nothing of what it was shown before."""
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
        """Return the sums with one more session."""
        starts = [at for at in (self.started_at, session.started_at) if at]
        return self.model_copy(
            update={
                "label": session.label or self.label,
                "hosts": tuple(sorted({*self.hosts, session.host})),
                "sessions": self.sessions + 1,
                "started_at": min(starts, default=Instant(0)),
                "changed_at": max(self.changed_at, session.changed_at),
                "counts": self.counts + session.counts,
            }
        )


class ActivityTotals(Value):
    """The sums of sessions whose files were dropped."""

    repositories: tuple[RepositoryActivity, ...] = ()

    def with_session(self, session: SessionActivity, /) -> "ActivityTotals":
        """Return the sums with one more session."""
        place = session.store, session.repository
        before = next((one for one in self.repositories if (one.store, one.repository) == place), None)
        after = (before or RepositoryActivity(store=place[0], repository=place[1])).with_session(session)
        return ActivityTotals(repositories=(*(one for one in self.repositories if one != before), after))


class PausedPlaces(Value):
    """Git directories and folders in which hooks do nothing."""

    paths: tuple[str, ...] = ()


class ActivityFolder:
    """The files of the record in one folder."""

    def __init__(self, folder: Path, /) -> None:
        self.folder = folder

    def line_key(self) -> bytes:
        """Return the key of the digests of lines, which nobody without this folder can compare with texts.

        Where none can be stored, it is another one at each call, and a line may be shown twice.
        """
        file = self.folder / _KEY
        with suppress(OSError):
            if len(key := read_own_file(file, size=_KEY_BYTES) or b"") == _KEY_BYTES:
                return key
        key = token_bytes(_KEY_BYTES)
        with suppress(ElytronError, OSError), self._locked():
            if file.exists() and len(earlier := read_own_file(file, size=_KEY_BYTES) or b"") == _KEY_BYTES:
                return earlier
            replace_file(file, key)
        return key

    def read(self, host: str, session: str, /) -> SessionActivity:
        """Return what is recorded of a session; an empty record if that is nothing."""
        return _read_value(self._session_file(host, session), SessionActivity) or SessionActivity(host=host)

    def change(
        self, host: str, session: str, change: Callable[[SessionActivity], SessionActivity], /, *, at: Instant
    ) -> SessionActivity:
        """Store what `change` makes of a session's record, and return it. Raises StoreError, OSError."""
        file = self._session_file(host, session)
        with self._locked():
            before = _read_value(file, SessionActivity)
            after = change(before or SessionActivity(host=host, started_at=at))
            _write_value(file, after.model_copy(update={"changed_at": at}))
            if before is None:
                self._drop_oldest()
        return after

    def repositories(self) -> tuple[RepositoryActivity, ...]:
        """Return the sums of all sessions, the repository that changed last first."""
        totals = _read_value(self.folder / _TOTALS, ActivityTotals) or ActivityTotals()
        for file in self._session_files():
            if (session := _read_value(file, SessionActivity)) is not None:
                totals = totals.with_session(session)
        return tuple(sorted(totals.repositories, key=lambda one: -one.changed_at))

    def forget(self, store: str, repository: str, /) -> None:
        """Remove what is recorded of a repository in a store. Raises StoreError, OSError."""
        place = store, repository
        if not self.folder.exists():
            return
        with self._locked():
            for file in self._session_files():
                session = _read_value(file, SessionActivity)
                if session is not None and (session.store, session.repository) == place:
                    file.unlink(missing_ok=True)
            totals = _read_value(self.folder / _TOTALS, ActivityTotals) or ActivityTotals()
            others = tuple(one for one in totals.repositories if (one.store, one.repository) != place)
            if others != totals.repositories:
                _write_value(self.folder / _TOTALS, ActivityTotals(repositories=others))

    def is_paused(self, folder: Path | None, /) -> bool:
        """Return whether hooks do nothing in a folder; everywhere, if the pauses cannot be read."""
        paths = self._paused_paths()
        if folder is None or not paths:
            return paths is None
        place = folder.resolve()
        around = {_pause_path(parent) for parent in (place, *place.parents) if (parent / ".git").exists()}
        return not around.isdisjoint(paths) or any(place.is_relative_to(path) for path in paths)

    def _paused_paths(self) -> tuple[str, ...] | None:
        """Return the paused places; None if they cannot be read."""
        file = self.folder / _PAUSES
        if not file.exists():
            return ()
        places = _read_value(file, PausedPlaces)
        return places.paths if places is not None else None

    def pause(self, folder: Path, /, *, is_paused: bool) -> str:
        """Pause or resume hooks in the repository of a folder, or in the folder itself; return its path.

        Raises UnreadableFile if the pauses cannot be read.
        """
        path = _pause_path(folder.resolve())
        with self._locked():
            paths = self._paused_paths()
            if paths is None:
                raise UnreadableFile(name=_PAUSES, problem=f"in {self.folder} is damaged: delete it to end all pauses")
            others = tuple(other for other in paths if other != path)
            _write_value(self.folder / _PAUSES, PausedPlaces(paths=(*others, path) if is_paused else others))
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
        """Return the files of sessions, the one that changed last first."""
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
    """Return what hooks did, for each repository, the one that changed last first."""
    return ActivityFolder(folder).repositories()


def store_digest(url: str, /) -> str:
    """Return the name of a store or server in the record, whose address is not in it.

    A store on this machine is named by its path, in whichever form the address has it.
    """
    with suppress(StoreUrlInvalid):
        if (path := parse_url(url).path) is not None:
            return digest_of(str(path.resolve()))
    return digest_of(url)


def digest_of(text: str, /, *, key: bytes = b"") -> str:
    """Return a short digest of a text, under a key if it is one of words."""
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES, key=key).hexdigest()


def _changed_ns(file: Path) -> int:
    with suppress(OSError):  # another process dropped it
        return file.stat().st_mtime_ns
    return 0


def _pause_path(place: Path) -> str:
    git = working_copy(place)
    return str(git.common if git is not None else place)


def _read_value(file: Path, kind: type[ValueT]) -> ValueT | None:
    """Return what is in a file; None without it, or if it is another version's or another user's."""
    try:
        data = read_own_file(file, size=_FILE_BYTES)
        return kind.model_validate(strict_json.parse_json(data or b"", limit=limits.JSON_BYTES))
    except (OSError, InvalidJson, ValidationError):
        return None


def _write_value(file: Path, value: Value) -> None:
    replace_file(file, value.model_dump_json(exclude_defaults=True).encode())
