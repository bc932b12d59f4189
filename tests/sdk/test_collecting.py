"""The search for cyclic garbage is put off while a batch is made, and goes on as it was."""

import gc

import pytest

from elytron_core.collecting import Uncollected


def test_the_search_goes_on_behind_a_stretch_also_where_it_failed() -> None:
    def fail() -> None:
        with Uncollected():
            assert not gc.isenabled()
            raise ZeroDivisionError

    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.isenabled()


def test_a_search_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with Uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
