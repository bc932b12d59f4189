"""The dialects, one module each. Its `DIALECT` says how requests are written and answers read. None imports another."""

from importlib import import_module

from elytron_models.dialect import ModelDialect


def dialect_named(name: str, /) -> ModelDialect:
    """Return the dialect of the module `name`, which is loaded now."""
    dialect = import_module(f"{__name__}.{name}").DIALECT
    assert isinstance(dialect, ModelDialect), name
    return dialect


__all__ = ["ModelDialect", "dialect_named"]
