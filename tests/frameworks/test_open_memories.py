"""Adapters whose frameworks are installed require an open memory, and say so where the path of one is passed."""

import inspect
from importlib import import_module
from typing import Any

import pytest

from elytron_core.errors import InvalidInput
from elytron_integrations.integration_table import INTEGRATIONS

MODULES = [row.module for row in INTEGRATIONS if row.installed_version is not None and not row.by_contract]


@pytest.mark.parametrize("module", MODULES)
def test_a_path_is_no_open_memory(module: str) -> None:
    public = [value for name, value in vars(import_module(module)).items() if not name.startswith("_")]
    adapters: list[Any] = [value for value in public if callable(value) and "Elytron" in value.__name__]
    adapters += [value for value in public if getattr(value, "__name__", "") == "memory_tools"]
    taking_memory = [adapter for adapter in adapters if "memory" in inspect.signature(adapter).parameters]
    assert taking_memory
    for adapter in taking_memory:
        leading = ["s1"] if "session_id" in inspect.signature(adapter).parameters else []
        with pytest.raises(InvalidInput, match="pass the open memory"):
            adapter(*leading, "memory.db")
