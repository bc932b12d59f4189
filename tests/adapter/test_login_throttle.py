"""Wrong credentials are counted per address, for a limited number of addresses, for a minute."""

import pytest

from elytron_adapter.key_quotas import WrongAttempts, place_of
from elytron_core.clock import FrozenClock


def test_an_address_with_too_many_failures_waits_for_the_rest_of_its_minute() -> None:
    clock = FrozenClock()
    attempts = WrongAttempts(clock, most=2)
    assert [attempts.failed("192.0.2.1") for _ in range(3)] == [None, None, 60]
    clock.advance(45_500)
    assert attempts.failed("192.0.2.1") == 15
    assert attempts.failed("192.0.2.2") is None
    clock.advance(14_500)
    assert attempts.failed("192.0.2.1") is None


def test_the_number_of_tracked_addresses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_adapter.key_quotas.WRONG_CREDENTIALS_PLACES", 2)
    attempts = WrongAttempts(FrozenClock(), most=1)
    for number in range(3):
        assert attempts.failed(f"192.0.2.{number}") is None
    assert attempts.failed("192.0.2.2") is not None
    assert attempts.failed("192.0.2.0") is None


def test_an_ipv6_network_counts_as_one_address() -> None:
    assert place_of("2001:db8::1") == place_of("2001:db8::ffff:1") != place_of("2001:db8:0:1::1")
    assert place_of("::ffff:192.0.2.1") == place_of("192.0.2.1") == "192.0.2.1"
    assert place_of(None) == place_of("a socket's path") == ""
