"""Cookies of sessions: how long they open something, and whose make room."""

import pytest

from elytron_adapter.access_keys import CookieSessions, SessionCookie
from elytron_core.ids import SeededIds

NAME = "session"


def sessions(*, lifetime_s: float = 60, most: int = 9, each: int = 2) -> CookieSessions:
    return CookieSessions(SeededIds(), SessionCookie(NAME, "/", lifetime_s=lifetime_s, most=most, each=each))


def headers(token: str) -> dict[str, str]:
    return {"cookie": f"a=1; {NAME}={token}"}


def test_a_holder_has_as_many_as_are_allowed_and_the_oldest_makes_room() -> None:
    kept = sessions(each=2)
    tokens = [kept.open("ada", f"Bearer {number}") for number in range(4)]
    shown = [kept.credential(headers(token)) for token in tokens]
    assert shown == [None, None, "Bearer 2", "Bearer 3"]


@pytest.mark.parametrize("lifetime_s", [0, -1])
def test_one_whose_time_is_over_opens_nothing_and_takes_no_place(lifetime_s: float) -> None:
    kept = sessions(lifetime_s=lifetime_s)
    assert kept.credential(headers(kept.open("ada", "Bearer ada"))) is None
    kept.open("bob", "Bearer bob")
    assert len(vars(kept)["_open"]) == 1


def test_a_credential_in_the_request_goes_before_the_cookie() -> None:
    kept = sessions()
    token = kept.open("ada", "Bearer ada")
    assert kept.credential(headers(token) | {"authorization": "Bearer other"}) == "Bearer other"
    kept.end({})
    assert kept.credential({}) is None
    assert kept.credential(headers("0" * 64)) is None
    kept.end(headers(token))
    assert kept.credential(headers(token)) is None
