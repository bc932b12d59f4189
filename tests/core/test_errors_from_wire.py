"""Every server error is restored as the exception with the same key, message, and details."""

import pytest
from tests.core.test_errors import EVERY, classes

from elytron.remote.memory import REMOTE_ATTEMPTS, REMOTE_BACKOFF_MAX_S, pause_s
from elytron_core import errors
from elytron_core.errors import ElytronError
from elytron_core.errors.tree import error_of


@pytest.mark.parametrize("error", [error for error, _, _ in EVERY], ids=lambda error: error.key)
def test_an_error_is_restored_unchanged(error: ElytronError) -> None:
    back = error_of(error.key, error.message, error.details())
    assert type(back) is type(error)
    assert (back.key, str(back), back.message, back.details()) == (
        error.key,
        error.message,
        error.message,
        error.details(),
    )


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.key)
def test_an_error_key_alone_is_enough(kind: type[ElytronError]) -> None:
    back = error_of(kind.key, "it went wrong")
    assert type(back) is kind
    assert all(isinstance(value, str | int) for value in back.details().values())


def test_unknown_keys_become_the_root_error_and_invalid_details_are_dropped() -> None:
    assert type(error_of("of_a_newer_version", "new")) is ElytronError
    back = error_of("conflict", "it is elsewhere", {"expected": "many", "what": "the fact"})
    assert back.details() == {"what": "the fact", "expected": 0, "found": 0}
    unreadable = error_of("unreadable_file", "damaged", {"field": "file 'x'", "problem": "is empty"})
    assert isinstance(unreadable, errors.UnreadableFile)
    assert unreadable.line is None


class TestPauses:
    def test_waits_grow_and_end(self) -> None:
        found = [
            pause_s(errors.Unreachable("gone"), attempt=attempt, may_repeat=True, jitter=1.0)
            for attempt in range(1, REMOTE_ATTEMPTS + 1)
        ]
        assert found == [0.1, 0.2, 0.4, None]

    def test_a_servers_retry_time_is_respected_up_to_a_limit(self) -> None:
        for asked, given in ((3, 3.0), (3_600, REMOTE_BACKOFF_MAX_S)):
            limited = errors.RateLimited(limit=1, retry_after_s=asked)
            assert pause_s(limited, attempt=1, may_repeat=True, jitter=0.0) == given
        overloaded = errors.Overloaded()
        overloaded.retry_after_s = 2
        assert pause_s(overloaded, attempt=1, may_repeat=True, jitter=1.0) == 2.1

    @pytest.mark.parametrize(
        ("error", "may_repeat"),
        [
            (errors.Unreachable("gone"), False),
            (errors.Conflict(what="it", expected=1, found=2), True),
            (errors.NotFound(what="memory", name="m"), True),
        ],
    )
    def test_there_is_no_wait_where_retrying_is_unsafe_or_useless(self, error: ElytronError, may_repeat: bool) -> None:
        assert pause_s(error, attempt=1, may_repeat=may_repeat, jitter=0.0) is None
