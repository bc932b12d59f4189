"""Limits of agents and of embeddings on the command line: `NAME=NUMBER`, each with the name that the docs have."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from elytron_agent.rag.rag_surfaces import RagSettings
    from elytron_agent.runs.settings import RunBudget

AGENT_LIMITS: Final = ("steps", "calls", "tokens", "seconds", "tool-seconds")
_QUOTAS: Final = ("user-rows", "user-bytes", "project-rows", "project-bytes", "inserts-per-hour")
_CACHE: Final = {
    "cache-users": "users",
    "cache-bytes": "size_bytes",
    "cache-user-bytes": "user_bytes",
    "cache-seconds": "ttl_ms",
    "cache-wait-seconds": "wait_s",
}
_ALERTS: Final = {
    "alert-search-seconds": "cached_search_s",
    "alert-load-seconds": "load_s",
    "alert-cache-share": "cache_share",
}
RAG_LIMITS: Final = (*_QUOTAS, *_CACHE, *_ALERTS)
_FRACTIONS: Final = frozenset({"seconds", "tool-seconds", "cache-seconds", "cache-wait-seconds", *_ALERTS})
"""Names whose numbers may have a fraction."""
_MOST: Final = 10**18


class NamedLimits:
    """Reads limits by their names, as the callback of an option."""

    def __init__(self, names: Sequence[str], /) -> None:
        self._names = tuple(names)

    def __call__(
        self, _context: click.Context, _parameter: click.Parameter, values: Sequence[str], /
    ) -> tuple[tuple[str, Any], ...]:
        return tuple(map(self.read, values))

    def read(self, text: str, /) -> tuple[str, Any]:
        """Return a name and its number. Raises BadParameter for an unknown name, and for what is no number above 0."""
        name, _, given = text.partition("=")
        if name not in self._names:
            raise click.BadParameter(f"{name!r} is no limit: there are {', '.join(self._names)}")
        try:
            number = float(given) if name in _FRACTIONS else int(given)
        except ValueError:
            number = 0
        if not 0 < number < _MOST:
            raise click.BadParameter(f"{name} has to be a number above 0, as in {name}=100")
        return name, number


def run_budget(given: Sequence[tuple[str, Any]], /) -> "RunBudget":
    """Return the budget of a turn."""
    from elytron_agent.runs.settings import RunBudget

    return RunBudget(**{_field_name(name): number for name, number in given})


def rag_settings(given: Sequence[tuple[str, Any]], /, *, is_off: bool) -> "RagSettings":
    """Return the settings of embeddings."""
    from elytron_agent.rag.rag_surfaces import RagSettings

    usual = RagSettings(is_off=is_off)
    known = dict(given)
    if "cache-seconds" in known:
        known["cache-seconds"] = round(known["cache-seconds"] * 1000)
    return replace(
        usual,
        quotas=replace(usual.quotas, **{_field_name(name): known[name] for name in _QUOTAS if name in known}),
        cache=replace(usual.cache, **_renamed_limits(_CACHE, known)),
        alerts=replace(usual.alerts, **_renamed_limits(_ALERTS, known)),
    )


def _renamed_limits(names: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, Any]:
    return {field: known[name] for name, field in names.items() if name in known}


def _field_name(name: str) -> str:
    return name.replace("-", "_")
