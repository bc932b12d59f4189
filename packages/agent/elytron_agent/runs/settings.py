"""Settings of an agent, its preferences, and what one run may cost."""

from typing import Annotated

from pydantic import AfterValidator, Field

from elytron_agent.context import limits as context_limits
from elytron_agent.context.local_time import zone_of
from elytron_agent.runs import limits
from elytron_core.model import Request, Value

_LOCALE = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$"


class Preferences(Request):
    """A person's preferences: time zone and language. Raises InvalidInput."""

    timezone: Annotated[str, AfterValidator(zone_of)] = "UTC"
    locale: Annotated[str, Field(pattern=_LOCALE)] | None = None


class RunBudget(Request):
    """Budget of one run; it ends when a bound is reached. None: no bound."""

    steps: Annotated[int, Field(ge=1, le=100)] = limits.MAX_STEPS
    calls: Annotated[int, Field(ge=0)] | None = limits.MAX_CALLS
    tokens: Annotated[int, Field(ge=1)] | None = limits.MAX_RUN_TOKENS
    seconds: Annotated[float, Field(gt=0)] | None = limits.MAX_SECONDS
    tool_seconds: Annotated[float, Field(gt=0)] = limits.TOOL_SECONDS


class AgentSettings(Request):
    """Settings of an agent. Models are addresses, `dialect:name[@url]`; without them, that of the agent."""

    enabled: bool = False
    model: str | None = None
    summary_model: str | None = None
    max_context_tokens: Annotated[int, Field(ge=1_000)] = context_limits.MAX_CONTEXT_TOKENS
    compaction_threshold: Annotated[float, Field(gt=0, le=1)] = context_limits.COMPACTION_THRESHOLD
    system_prompt: str | None = None
    preferences: Preferences = Preferences()
    temperature: Annotated[float, Field(ge=0, le=2)] | None = limits.TEMPERATURE
    max_tokens: Annotated[int, Field(ge=1)] | None = limits.MAX_TOKENS
    uses_tools: bool = True
    """True if tools are offered and called."""
    compacts: bool = True
    """True if old turns become summaries."""
    recall_deadline_s: Annotated[float, Field(ge=0)] = context_limits.RECALL_DEADLINE_S
    lease_seconds: Annotated[float, Field(gt=0, le=3_600)] = limits.LEASE_SECONDS
    """So long a process holds its thread without a sign of life."""
    wait_seconds: Annotated[float, Field(ge=0, le=3_600)] = limits.THREAD_WAIT_SECONDS
    """So long a run waits for a thread that another process runs; then it is ThreadBusy."""
    budget: RunBudget = RunBudget()


class Usage(Value):
    """Usage of a run."""

    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens
