"""The table of framework adapters, from which the command, its docs page and the checks are generated.

It imports only the standard library, because scripts outside the environment read it.
"""

import re
import warnings
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final


@dataclass(frozen=True, slots=True)
class FrameworkIntegration:
    """An adapter: the framework it requires, and where its code, page and conformance tests are."""

    name: str
    extra: str
    distribution: str
    import_name: str
    tested_range: str
    """Versions of the distribution that the conformance tests were run with, such as ">=4.3.2,<4.4"."""
    module: str
    page: str
    """Path of its page below docs/."""
    provides: str
    conformance: str
    """The folder or module of its conformance tests, below tests/frameworks/."""
    by_contract: bool = False
    """True if the tests load only the modules of the framework's interface, without all that it needs to run."""

    @property
    def installed_version(self) -> str | None:
        """Return the installed version of the framework, or None."""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None

    def is_tested(self, release: str, /) -> bool:
        """Return whether a framework version is inside the tested range."""
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
        page="how-to/frameworks/langgraph.md",
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
        page="how-to/frameworks/openai-agents.md",
        provides="a session, and tools to recall, store and forget",
        conformance="openai_agents",
    ),
    FrameworkIntegration(
        name="Anthropic memory tool",
        extra="anthropic",
        distribution="anthropic",
        import_name="anthropic",
        tested_range=">=2.14,<3",
        module="elytron_integrations.anthropic_memory",
        page="how-to/frameworks/anthropic-memory.md",
        provides="the six file commands, for both clients",
        conformance="anthropic_memory",
    ),
    FrameworkIntegration(
        name="Pydantic AI",
        extra="pydantic-ai",
        distribution="pydantic-ai-slim",
        import_name="pydantic_ai",
        tested_range=">=2.68,<3",
        module="elytron_integrations.pydantic_ai",
        page="how-to/frameworks/pydantic-ai.md",
        provides="a conversation store, and a capability that recalls and stores",
        conformance="pydantic_ai",
    ),
    FrameworkIntegration(
        name="Google ADK",
        extra="google-adk",
        distribution="google-adk",
        import_name="google.adk",
        tested_range=">=2.13,<3",
        module="elytron_integrations.google_adk",
        page="how-to/frameworks/google-adk.md",
        provides="a session service and a memory service",
        conformance="google_adk",
    ),
    FrameworkIntegration(
        name="Claude Agent SDK",
        extra="claude-agent",
        distribution="claude-agent-sdk",
        import_name="claude_agent_sdk",
        tested_range=">=0.2.189,<0.3",
        module="elytron_integrations.claude_agent",
        page="how-to/frameworks/claude-agent.md",
        provides="a session store whose sessions can be recalled",
        conformance="claude_agent",
    ),
    FrameworkIntegration(
        name="LlamaIndex",
        extra="llamaindex",
        distribution="llama-index-core",
        import_name="llama_index.core",
        tested_range=">=0.14.25,<0.15",
        module="elytron_integrations.llamaindex",
        page="how-to/frameworks/llamaindex.md",
        provides="a memory block",
        conformance="llamaindex",
    ),
    FrameworkIntegration(
        name="Strands Agents",
        extra="strands",
        distribution="strands-agents",
        import_name="strands",
        tested_range=">=1.62,<2",
        module="elytron_integrations.strands",
        page="how-to/frameworks/strands.md",
        provides="a memory store",
        conformance="strands",
    ),
    FrameworkIntegration(
        name="Microsoft Agent Framework",
        extra="agent-framework",
        distribution="agent-framework-core",
        import_name="agent_framework",
        tested_range=">=1.23,<2",
        module="elytron_integrations.agent_framework",
        page="how-to/frameworks/agent-framework.md",
        provides="a context provider and a history provider",
        conformance="agent_framework",
    ),
    FrameworkIntegration(
        name="CrewAI",
        extra="crewai",
        distribution="crewai",
        import_name="crewai",
        tested_range=">=1.15,<1.16",
        module="elytron_integrations.crewai",
        page="how-to/frameworks/crewai.md",
        provides="a storage backend of its memory",
        conformance="crewai",
        by_contract=True,
    ),
)
"""Every adapter that requires a framework."""


def require_framework(module: str, /) -> None:
    """Check an adapter's framework. The adapter's module calls this before importing the framework.

    Warns if the version is outside the tested range. Raises MissingExtra if the framework is not installed.
    """
    row = next(row for row in INTEGRATIONS if row.module == module)
    release = row.installed_version
    if release is None or find_spec(row.import_name) is None:
        from elytron_core.errors import MissingExtra

        raise MissingExtra(extra=row.extra, purpose=row.name)
    if not row.is_tested(release):
        warnings.warn(
            f"Elytron's adapter for {row.name} was tested with {row.distribution} {row.tested_range}, but {release} is"
            " installed and may not work. Run `elytron integrations` to list the tested versions.",
            stacklevel=2,
        )


def _release_parts(release: str, /) -> tuple[int, ...]:
    """Return a version's leading numbers without trailing zeros, so that `4.4` and `4.4.0` are equal."""
    numbers = re.match(r"\d+(?:\.\d+)*", release)
    parts = [int(part) for part in numbers[0].split(".")] if numbers else [0]
    while parts[-1:] == [0]:
        parts.pop()
    return tuple(parts)
