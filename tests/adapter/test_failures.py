"""Every error has a row in the table, and unknown errors reveal nothing."""

from collections.abc import Iterator

from elytron_adapter.envelope import (
    EXIT_OK,
    FAILURES,
    HEADERS_TOO_LARGE,
    INTERNAL,
    METHOD_NOT_ALLOWED,
    REQUEST_TIMEOUT,
    UNSUPPORTED_MEDIA_TYPE,
    RejectedAnswer,
    failure_of,
    reject_error,
)
from elytron_core.errors import Conflict, ElytronError, NotFound


def tree(root: type[ElytronError]) -> Iterator[type[ElytronError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


def test_the_table_has_exactly_the_keys_of_the_error_tree_and_of_the_transports() -> None:
    keys = {error.key for error in tree(ElytronError) if error.__module__.startswith("elytron_core.errors.")}
    of_transports = {
        METHOD_NOT_ALLOWED,
        UNSUPPORTED_MEDIA_TYPE,
        REQUEST_TIMEOUT,
        HEADERS_TOO_LARGE,
    }
    assert set(FAILURES) == keys | of_transports


def test_every_row_is_an_error_in_each_protocol() -> None:
    for row in FAILURES.values():
        assert 400 <= row.status < 600
        assert -32_768 <= row.rpc <= -32_000
        assert EXIT_OK < row.exit < 64
        assert row.title


def test_rpc_codes_name_one_error_each() -> None:
    codes = [row.rpc for row in FAILURES.values()]
    assert len(set(codes)) == len(codes)


def test_an_unknown_key_is_an_internal_error() -> None:
    assert failure_of("no such key") == FAILURES[INTERNAL]


def test_our_errors_report_key_reason_and_details() -> None:
    conflict = Conflict(what="fact", expected=1, found=2)
    assert reject_error(conflict, request_id="r1") == RejectedAnswer(
        request_id="r1",
        error_key="conflict",
        reason="fact is at revision 2, not 1: read it again and retry",
        retryable=True,
        details={"what": "fact", "expected": 1, "found": 2},
    )
    assert reject_error(NotFound(what="memory", name="x"), request_id="r2").retryable is False


def test_a_foreign_error_reveals_no_details() -> None:
    told = reject_error(RuntimeError("s3cret"), request_id="r1")
    assert told == RejectedAnswer(
        request_id="r1", error_key=INTERNAL, reason="internal error; see the log for request r1"
    )
