"""The framework adapters as a table, of which the command, its page and the checks are made.

It imports nothing but the standard library, since scripts outside of the environment read it.
"""

import re
import warnings
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final


@dataclass(frozen=True, slots=True)
class FrameworkIntegration:
    """An adapter: the framework that it needs, and where its code, page and conformance tests are."""

    name: str
    extra: str
    distribution: str
    import_name: str
    tested_range: str
    """The versions of the distribution that the conformance tests ran with, such as ">=4.3.2,<4.4"."""
    module: str
    page: str
    """Under docs/."""
    provides: str
    conformance: str
    """The folder or module of its conformance tests, under tests/frameworks/."""

    @property
    def installed_version(self) -> str | None:
        """Return the version of the framework in this environment; None without it."""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None

    def is_tested(self, release: str, /) -> bool:
        """Return whether a version of the framework is inside the tested range."""
        bounds = re.fullmatch(r">=([\d.]+),<([\d.]+)", self.tested_range)
        assert bounds is not None
        lowest, limit = bounds.groups()
        return _release_parts(lowest) <= _release_parts(release) < _release_parts(limit)


INTEGRATIONS: Final[tuple[FrameworkIntegration, ...]] = (
    FrameworkIntegration(
        name="LangGraph",
        extra="langgraph",
        distribution="langgraph-checkpoint",
        import_name="langgraph.checkpoint",
        tested_range=">=4.3.2,<4.4",
        module="elytron_integrations.langgraph",
        page="how-to/langgraph.md",
        provides="a checkpointer, and a store with search",
        conformance="langgraph",
    ),
    FrameworkIntegration(
        name="OpenAI Agents SDK",
        extra="openai-agents",
        distribution="openai-agents",
        import_name="agents",
        tested_range=">=0.24,<0.25",
        module="elytron_integrations.openai_agents",
        page="how-to/openai-agents.md",
        provides="a session, and tools to recall, store and forget",
        conformance="openai_agents",
    ),
)
"""Every adapter that needs a framework."""


def require_framework(module: str, /) -> None:
    """Check the framework of an adapter's module, which calls this before it imports it.

    Warns once of a version outside the tested range. Raises MissingExtra without the framework.
    """
    row = next(row for row in INTEGRATIONS if row.module == module)
    release = row.installed_version
    if release is None or find_spec(row.import_name) is None:
        from elytron_core.errors import MissingExtra

        raise MissingExtra(extra=row.extra, purpose=row.name)
    if not row.is_tested(release):
        warnings.warn(
            f"{row.name} of Elytron was tested with {row.distribution} {row.tested_range}, and {release} is installed."
            " It may fail: run `elytron integrations` for the table.",
            stacklevel=2,
        )


def _release_parts(release: str, /) -> tuple[int, ...]:
    """Return the numbers at the start of a version, of which `4.4` and `4.4.0` are equal."""
    numbers = re.match(r"\d+(?:\.\d+)*", release)
    parts = [int(part) for part in numbers[0].split(".")] if numbers else [0]
    while parts[-1:] == [0]:
        parts.pop()
    return tuple(parts)
