"""The search for cyclic garbage is put off while much is made, goes on as it was, and leaves alone what stays."""

import gc

import pytest

from elytron_core.lazy import GarbagePause, freeze_objects


def test_the_search_goes_on_behind_a_stretch_also_where_it_failed() -> None:
    def fail() -> None:
        with GarbagePause():
            assert not gc.isenabled()
            raise ZeroDivisionError

    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.isenabled()


def test_a_search_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with GarbagePause():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_stays_is_looked_at_only_with_everything() -> None:
    kept: list[list[str]] = [[]]
    freeze_objects()
    assert any(one is kept for one in gc.get_objects(generation=2))


def test_what_a_host_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        freeze_objects()
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
