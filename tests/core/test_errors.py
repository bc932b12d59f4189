"""The error tree matches its diagram, and its messages name the remedy."""

import copy
import pickle
import re

import pytest

from elytron_core import errors
from elytron_core.errors import ElytronError
from elytron_core.errors.tree import install_hint


def classes(root: type[ElytronError] = ElytronError) -> list[type[ElytronError]]:
    own = [child for child in root.__subclasses__() if child.__module__.startswith(f"{errors.__name__}.")]
    return [root, *(found for child in own for found in classes(child))]


def test_the_documented_tree_is_accurate() -> None:
    drawn: dict[str, tuple[str, str | None]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        row = re.match(r" {4}((?:[│├└─ ]{4})*)([A-Z]\w+)(?: +([a-z]+(?:_[a-z]+)*)\b)?", line)
        if row is None:
            continue
        depth = len(row[1]) // 4
        above = [*above[:depth], row[2]]
        drawn[row[2]] = (above[depth - 1] if depth else "Exception", row[3])
    built = {found.__name__: found for found in classes()}
    assert {name: parent for name, (parent, _) in drawn.items()} == {
        name: found.__mro__[1].__name__ for name, found in built.items()
    }
    keyed = {name: key for name, (_, key) in drawn.items() if key is not None}
    assert keyed == {name: built[name].key for name in keyed}
    assert set(drawn) - set(keyed) == {"ElytronError", "StoreError", "SealError", "ModelError"}


def test_every_class_has_its_own_key() -> None:
    keys = [found.key for found in classes()]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", key) for key in keys)


EVERY: list[tuple[ElytronError, str, dict[str, str | int]]] = [
    (
        errors.InvalidInput(field="limit", problem="is below 1"),
        "limit is below 1",
        {"field": "limit", "problem": "is below 1"},
    ),
    (
        errors.InvalidJson(problem="is not UTF-8"),
        "the JSON is not UTF-8",
        {"field": "the JSON", "problem": "is not UTF-8"},
    ),
    (
        errors.ScopeMissing(operation="erase", way_out="give a scope"),
        "scope is missing for 'erase': give a scope",
        {"field": "scope", "problem": "is missing for 'erase': give a scope"},
    ),
    (
        errors.StoreUrlInvalid(problem="names no engine"),
        "store names no engine; use memory:, file:///folder, sqlite:///path.db, or a path that ends in .db",
        {
            "field": "store",
            "problem": "names no engine; use memory:, file:///folder, sqlite:///path.db, or a path that ends in .db",
        },
    ),
    (
        errors.UnreadableFile(name="talk.jsonl", problem="is not JSON", line=3),
        "file 'talk.jsonl', line 3 is not JSON",
        {"field": "file 'talk.jsonl', line 3", "problem": "is not JSON"},
    ),
    (
        errors.UnreadableFile(name="talk.jsonl", problem="is empty"),
        "file 'talk.jsonl' is empty",
        {"field": "file 'talk.jsonl'", "problem": "is empty"},
    ),
    (
        errors.EventIdInvalid(),
        "Last-Event-ID is not the id of an event of this stream",
        {"field": "Last-Event-ID", "problem": "is not the id of an event of this stream"},
    ),
    (errors.AgentDisabled(way_out="wait"), "the agent is disabled: wait", {"what": "agent"}),
    (errors.NotFound(what="fact", name="f1"), "no fact of this name in this scope", {"what": "fact"}),
    (
        errors.NotFound(what="model", name="m", way_out="there are a"),
        "no model of this name: there are a",
        {"what": "model"},
    ),
    (
        errors.Conflict(what="the fact", expected=1, found=2),
        "the fact is at revision 2, not 1: read it again and retry",
        {"what": "the fact", "expected": 1, "found": 2},
    ),
    (
        errors.PreconditionFailed(),
        "it has changed since it was read: read it again and retry",
        {},
    ),
    (errors.IdempotencyConflict(), "this idempotency key was used for a different request: send a new key", {}),
    (
        errors.AlreadyExists(what="user", name="ada", problem="its key is shown once: rotate it"),
        "user 'ada' already exists: its key is shown once: rotate it",
        {},
    ),
    (errors.SpaceInUse(space="ada", problem="holds memories: erase it"), "space 'ada' holds memories: erase it", {}),
    (
        errors.SpaceIncomplete(space="ada"),
        (
            "space 'ada' is being filled by a restore or copy, or one was interrupted: "
            "wait, run it again, or erase the space"
        ),
        {},
    ),
    (errors.TurnConflict(turn="t1"), "turn 't1' is already stored with different content: use a new turn id", {}),
    (
        errors.LimitExceeded(what="tags", limit=32, found=40),
        "tags: at most 32, got 40",
        {"what": "tags", "limit": 32},
    ),
    (errors.LimitExceeded(what="tags", limit=32), "tags: at most 32", {"what": "tags", "limit": 32}),
    (
        errors.PayloadTooLarge(limit=9, what="the file", way_out="split it"),
        "the file has more than 9 bytes: split it",
        {"what": "bytes", "limit": 9},
    ),
    (errors.StillRunning(), "the first call with this idempotency key is still running: try again", {}),
    (
        errors.ThreadBusy(thread="main"),
        "the thread 'main' is busy with other turns: wait for their answers, then try again",
        {"thread": "main"},
    ),
    (errors.TransportOff(transport="mcp"), "the operator of this server has disabled 'mcp'", {"transport": "mcp"}),
    (errors.Overloaded(), "the server is overloaded: try again in a moment", {}),
    (
        errors.RateLimited(limit=600, retry_after_s=3),
        "more than 600 calls per minute: try again in 3 s",
        {"retry_after_s": 3},
    ),
    (errors.Unauthorized(), "missing or unknown credential: send `Authorization: Bearer <key>`", {}),
    (errors.ModelUnavailable("no answer"), "no answer", {}),
    (errors.ModelRefused("no vectors"), "no vectors", {}),
    (errors.GatewayRefused("HTTP 403", status=403), "HTTP 403", {"status": 403}),
    (errors.Unreachable("no answer"), "no answer", {}),
    (errors.PermissionRefused("not yours"), "not yours", {}),
    (errors.Unsupported("no such operation"), "no such operation", {}),
    (
        errors.MissingExtra(extra="mcp", purpose="the MCP server"),
        (
            "the MCP server needs the extra 'mcp': in the checkout, run `uv sync --inexact --extra mcp` or "
            "`pip install '.[mcp]'`"
        ),
        {"extra": "mcp"},
    ),
    (
        errors.UnsupportedMedia(allowed=("text/plain",)),
        "files of this type are not supported; supported types are text/plain",
        {},
    ),
    (
        errors.StoreMissing(place="/data/m.db"),
        (
            "there is no store at '/data/m.db': check the path, or create one by storing something "
            "(`elytron add`, `elytron import`)"
        ),
        {"place": "/data/m.db"},
    ),
    (errors.StoreUnavailable("cannot be opened"), "cannot be opened", {}),
    (
        errors.StoreCrowded(),
        (
            "the Postgres server accepts no more connections: use fewer (?connections=N in the URL), put a pooler"
            " in between, or raise its max_connections"
        ),
        {},
    ),
    (
        errors.StoreTimeout(),
        (
            "the Postgres server cancelled a statement that exceeded its statement_timeout; nothing was changed: "
            "try again, or raise the timeout for this user"
        ),
        {},
    ),
    (
        errors.StoreDeadlock(),
        "the Postgres server repeatedly cancelled a statement because of deadlocks; nothing was changed: try again",
        {},
    ),
    (errors.StoreRefused("the server is too old"), "the server is too old", {}),
    (
        errors.OutcomeUnknown(doing="committing"),
        (
            "the connection to the store was lost while committing, so it is unknown whether that was done: check"
            " before you repeat it; a call with an idempotency key can be repeated safely"
        ),
        {},
    ),
    (
        errors.SequenceAhead(expected=7),
        (
            "the space's journal did not reach sequence 7 in time: use the sequence of a report of this "
            "space, or try again"
        ),
        {"expected": 7},
    ),
    (errors.StoreReadOnly("can only be read here"), "can only be read here", {}),
    (errors.StoreBusy(engine="sqlite", waited_s=30.4), "the sqlite store was locked by others for 30 s: try again", {}),
    (
        errors.StoreFull(engine="file"),
        "the device of the file store is full: free space or erase something, and retry; this write stored nothing",
        {},
    ),
    (
        errors.StoreFull(engine="file", erasing=True),
        "the device of the file store is full: free space on the device and retry; the erasure is not complete",
        {},
    ),
    (
        errors.StoreBudgetExceeded(what="events", limit=256),
        ("this store is limited to 256 events: erase some, or open it with a larger profile; nothing was stored"),
        {"what": "events", "limit": 256},
    ),
    (
        errors.StoreFailed(engine="file", doing="syncing"),
        "the file store failed while syncing and accepts no more writes: open it again",
        {},
    ),
    (errors.StoreClosed(), "this store is closed: open it again", {}),
    (errors.StoreForeign("not a store of ours"), "not a store of ours", {}),
    (
        errors.StoreNewer(found=9, known=1),
        "this store has schema 9, this version supports up to 1: upgrade elytron",
        {"found": 9},
    ),
    (
        errors.StoreCorrupt(what="a document"),
        "a document is damaged and was not returned: run `elytron inspect --check` for the full report",
        {"what": "a document"},
    ),
    (errors.KeyMissing("no key"), "no key", {}),
    (errors.KeyDestroyed(), "this space was erased by destroying its key; its content cannot be recovered", {}),
    (
        errors.SpaceLocked(space="ada"),
        "space 'ada' is locked: unlock it with its user's words or passphrase",
        {"space": "ada"},
    ),
    (errors.SecretRefused(), "the words or the passphrase do not match this space", {}),
    (
        errors.WordsInvalid(problem="are not 12"),
        "the words are not 12",
        {"field": "the words", "problem": "are not 12"},
    ),
    (
        errors.SealBroken(what="a document"),
        (
            "a document was altered, moved or truncated after it was sealed, and was not returned: "
            "run `elytron inspect --check` for the full report"
        ),
        {"what": "a document"},
    ),
]


@pytest.mark.parametrize(("error", "message", "details"), EVERY, ids=lambda value: getattr(value, "key", ""))
def test_a_message_names_the_object_and_the_remedy(
    error: ElytronError, message: str, details: dict[str, str | int]
) -> None:
    assert (str(error), error.message, error.details()) == (message, message, details)


@pytest.mark.parametrize("error", [error for error, _, _ in EVERY], ids=lambda error: error.key)
def test_an_error_survives_transfer_from_another_process(error: ElytronError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
        assert (again.args, again.details()) == (error.args, error.details())


def test_every_error_that_is_raised_has_its_example() -> None:
    branches = {errors.ElytronError, errors.StoreError, errors.SealError, errors.ModelError}
    assert {type(error) for error, _, _ in EVERY} == set(classes()) - branches


def test_errors_caused_by_contention_are_retryable() -> None:
    assert {found.key for found in classes() if found.retryable} == {
        "conflict",
        "sequence_ahead",
        "rate_limited",
        "overloaded",
        "space_incomplete",
        "still_running",
        "thread_busy",
        "model_unavailable",
        "unreachable",
        "store_unavailable",
        "store_busy",
        "store_full",
        "store_crowded",
        "store_timeout",
        "store_deadlock",
    }


_LIBRARY = "lib/python3.11/site-packages/elytron_core/errors/tree.py"


@pytest.mark.parametrize(
    ("place", "prefix", "has_pip", "hint"),
    [
        (
            "packages/core/elytron_core/errors/tree.py",
            "/src/.venv",
            "uv",
            "run `uv sync --inexact --extra mcp`",
        ),
        (_LIBRARY, "/data/uv/tools/elytron", False, "run `uv tool install 'elytron[mcp]'`"),
        (
            _LIBRARY,
            "C:\\Users\\ada\\AppData\\uv\\tools\\elytron",
            "uv",
            "run `uv tool install 'elytron[mcp]'`",
        ),
        (_LIBRARY, "/data/pipx/venvs/elytron", True, "run `pipx install --force 'elytron[mcp]'`"),
        (_LIBRARY, "/srv/venv", False, "run `uv pip install 'elytron[mcp]'` in its virtual environment"),
        (_LIBRARY, "/srv/venv", True, "run `pip install 'elytron[mcp]'` in its virtual environment"),
        (_LIBRARY, "/usr/local", True, "run `pip install 'elytron[mcp]'`, in a container as a step of its image"),
    ],
)
def test_a_missing_extra_hint_matches_the_installation_method(
    place: str, prefix: str, has_pip: bool, hint: str
) -> None:
    assert hint in install_hint("mcp", place=place, prefix=prefix, base_prefix="/usr/local", has_pip=has_pip)
