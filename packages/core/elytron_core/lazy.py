"""Packages whose names are loaded when they are first used.

The stub beside the `__init__` of such a package is its list of public names for type checkers, and equal to the table
that `lazy_exports` is given.
"""

import gc
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from opcode import opmap
from types import FrameType, TracebackType


class GarbagePause:
    """A stretch of work, without waiting, during which Python does not search for cyclic garbage.

    A batch of turns consists of thousands of objects that soon go without such a search. Each stretch counts as one
    generation of them; else they count as many, and the search goes through everything in memory again and again, a
    quarter of the time that writing takes. A search that was off before stays off.
    """

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._was_on:
            gc.enable()


def freeze_objects() -> None:
    """Take all there is for something that stays: from now on only a search through everything looks at it."""
    if not gc.get_freeze_count():  # what a host has frozen stays so
        gc.freeze()
        gc.unfreeze()


def _is_import(frame: FrameType) -> bool:
    """Return whether `frame` runs `from package import name`, which puts a text of its own for an AttributeError."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def lazy_exports(
    package: str, exports: Mapping[str, str], /
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of `package`: each name comes from its home and then stays in the package.

    `exports` has the names that come from each module, with spaces between them; the package's `__init__.pyi` says the
    same to type checkers.
    """

    @cache
    def homes() -> dict[str, str]:
        return {name: home for home, names in exports.items() for name in names.split()}

    def names() -> list[str]:
        return sorted(homes(), key=lambda name: (0 if name.isupper() else 1 if name[:1].isupper() else 2, name))

    def load(name: str) -> object:
        if name == "__all__":
            return names()
        if name == "__version__":
            return import_module("importlib.metadata").version(package)
        home = None if name.startswith("__") else homes().get(name)
        if home is None:
            problem = f"module {package!r} has no attribute {name!r}"
            if not name.startswith("_"):  # the errors are such a package themselves
                problem += import_module("elytron_core.errors.foreign_names").export_instead(name, homes())
                if _is_import(import_module("inspect").currentframe().f_back):
                    raise ImportError(problem, name=name)
            raise AttributeError(problem, name=name)
        # Definitions of modules stay, and searching them for garbage again and again takes a tenth of their loading.
        with GarbagePause():
            value: object = getattr(import_module(home), name)
            freeze_objects()
        setattr(sys.modules[package], name, value)
        return value

    return load, names
