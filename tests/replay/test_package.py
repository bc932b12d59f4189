import subprocess
import sys
from operator import attrgetter

import pytest

import elytron_replay


def test_every_name_of_the_package_can_be_loaded() -> None:
    names: list[str] = attrgetter("__all__")(elytron_replay)
    assert names == sorted(names)
    assert all(getattr(elytron_replay, name) is not None for name in names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'elytron_replay' has no attribute 'dream'"):
        getattr(elytron_replay, "dream")  # noqa: B009  a name that type checkers would refuse


def test_importing_the_package_loads_no_runtime() -> None:
    code = (
        "import elytron_replay, sys; print([name for name in ('numpy', 'pydantic', 'elytron') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
