"""Packages whose names load on first use.

The stub next to the `__init__` of such a package lists its public names for type checkers. It must equal the table
passed to `lazy_exports`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from opcode import opmap
from types import FrameType


def _is_import(frame: FrameType) -> bool:
    """Return whether `frame` runs `from package import name`, which replaces an AttributeError with its own text."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def lazy_exports(
    package: str, exports: Mapping[str, str], /
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for `package`, which import each name from its module on first use.

    `exports` has the names that come from each module, with spaces between them, or `*` for all of its `__all__`; a
    name of `package` itself is one of its modules. The package's `__init__.pyi` says the same to type checkers.
    """

    @cache
    def homes() -> dict[str, str]:
        return {
            name: module_name
            for module_name, exported_names in exports.items()
            if exported_names != "*"
            for name in exported_names.split()
        }

    @cache
    def all_homes() -> dict[str, str]:
        whole_modules = (module_name for module_name, exported_names in exports.items() if exported_names == "*")
        return homes() | {
            name: module_name for module_name in whole_modules for name in import_module(module_name).__all__
        }

    def names() -> list[str]:
        return sorted(all_homes(), key=lambda name: (0 if name.isupper() else 1 if name[:1].isupper() else 2, name))

    def load(name: str) -> object:
        if name == "__all__":
            return names()
        if name == "__version__":
            return import_module("importlib.metadata").version(package)
        # Python itself looks up many dunder names, which no module exports.
        module_name = None if name.startswith("__") else homes().get(name)
        # Only an unknown name requires importing the modules that are exported whole.
        if module_name is None and not name.startswith("_"):
            module_name = all_homes().get(name)
        if module_name is None:
            problem = f"module {package!r} has no attribute {name!r}"
            if not name.startswith("_"):  # the errors are such a package themselves
                problem += import_module("elytron_core.errors.foreign_names").export_instead(name, all_homes())
                if _is_import(import_module("inspect").currentframe().f_back):
                    raise ImportError(problem, name=name)
            raise AttributeError(problem, name=name)
        exported_value: object = (
            import_module(f"{module_name}.{name}")
            if module_name == package
            else getattr(import_module(module_name), name)
        )
        setattr(sys.modules[package], name, exported_value)
        return exported_value

    return load, names
