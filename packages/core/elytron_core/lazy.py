"""Packages whose names are loaded when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from elytron_core.gc_pause import Uncollected, settle


def loading(package: str, homes: Mapping[str, str], /) -> Callable[[str], object]:
    """Return the `__getattr__` of `package`: each name comes from its home and then stays in the package.

    `homes` are modules with the names that each gives, apart by spaces.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # What modules define stays: looking through it again and again takes a tenth of their loading.
        with Uncollected():
            value: object = getattr(import_module(home), name)
            settle()
        setattr(sys.modules[package], name, value)
        return value

    return load
