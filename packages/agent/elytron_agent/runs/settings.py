"""Settings and preferences of an agent, and the limits of a run."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, Field

from elytron_agent import limits
from elytron_agent.tool import Tool
from elytron_core.clock import Clock
from elytron_core.errors import InvalidInput
from elytron_core.model import Request, Value
from elytron_core.ports.chat import ToolCall
from elytron_turn import limits as turn_limits
from elytron_turn.context import near_names, zone_of

RECALL_DEADLINE_S: Final = 0.05
MAX_STEPS: Final = 10
MAX_CALLS: Final = 50
MAX_RUN_TOKENS: Final = 2_000_000
MAX_SECONDS: Final = 900.0
TOOL_SECONDS: Final = 120.0
"""Default time limit of a tool call. After that, its outcome is unknown."""
MAX_TOKENS: Final = 32_768
THREAD_WAIT_SECONDS: Final = 25.0
"""How long a run waits for a thread that another process runs. This is longer than a dead process holds it."""


_LOCALE: Final = re.compile(r"([A-Za-z]{2,3})([-_][A-Za-z0-9]{2,8})*")
_CODES: Final = (
    "aaabaeafakamanarasavayazbabebgbhbibmbnbobrbscacechcocrcscucvcydadedvdzeeeleneoeseteufafffifjfofrfygagdglgngu"
    "gvhahehihohrhthuhyhziaidieigiiikioisitiujajvkakgkikjkkklkmknkokrkskukvkwkylalblglilnloltlulvmgmhmimkmlmnmrms"
    "mtmynanbndnengnlnnnonrnvnyocojomorospapiplpsptqurmrnrorurwsascsdsesgsiskslsmsnsosqsrssstsusvswtatetgthtitktl"
    "tntotrtstttwtyugukuruzvevivowawoxhyiyozazhzu"
)
LANGUAGES: Final = frozenset(_CODES[place : place + 2] for place in range(0, len(_CODES), 2))
"""Two-letter languages of ISO 639-1. Three-letter codes are accepted unchecked."""


def locale_of(name: str, /) -> str:
    """Return `name` if it is a language tag of BCP 47, such as pt-PT. Raises InvalidInput."""
    tag_match = _LOCALE.fullmatch(name)
    if tag_match is None or (len(tag_match[1]) == 2 and tag_match[1].lower() not in LANGUAGES):
        nearest_names = near_names(name[:2], LANGUAGES)
        problem = f"is not a language such as pt or pt-PT: the nearest are {nearest_names}"
        raise InvalidInput(field="locale", problem=problem)
    return name


class UserPreferences(Request):
    """A person's preferences: time zone and language. Raises InvalidInput."""

    timezone: Annotated[str, AfterValidator(zone_of)] = "UTC"
    locale: Annotated[str, Field(max_length=limits.LOCALE_CHARS), AfterValidator(locale_of)] | None = None


class RunBudget(Request):
    """Limits of one run, which ends when one is reached. None means unlimited."""

    steps: Annotated[int, Field(ge=1, le=1_000)] = MAX_STEPS
    calls: Annotated[int, Field(ge=0)] | None = MAX_CALLS
    tokens: Annotated[int, Field(ge=1)] | None = MAX_RUN_TOKENS
    seconds: Annotated[float, Field(gt=0)] | None = MAX_SECONDS
    tool_seconds: Annotated[float, Field(gt=0)] = TOOL_SECONDS


class AgentSettings(Request):
    """Settings of an agent. Models are addresses, `dialect:name[@url]`; the default is the agent's model."""

    enabled: bool = False
    model: str | None = None
    summary_model: str | None = None
    max_context_tokens: Annotated[int, Field(ge=1_000)] = limits.MAX_CONTEXT_TOKENS
    compaction_threshold: Annotated[float, Field(gt=0, le=1)] = turn_limits.COMPACTION_THRESHOLD
    system_prompt: str | None = None
    instructions: str = ""
    """A client's own instructions, added after the system prompt."""
    preferences: UserPreferences = UserPreferences()
    welcomes: bool = True
    """True if the agent asks a person it does not know yet for an introduction."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = limits.TEMPERATURE
    max_tokens: Annotated[int, Field(ge=1)] | None = MAX_TOKENS
    uses_tools: bool = True
    """True if tools are offered and called."""
    compacts: bool = True
    """True if old turns are summarised."""
    recall_deadline_s: Annotated[float, Field(ge=0)] = RECALL_DEADLINE_S
    lease_seconds: Annotated[float, Field(gt=0, le=3_600)] = limits.LEASE_SECONDS
    """How long a process holds its thread after the last renewal."""
    wait_seconds: Annotated[float, Field(ge=0, le=3_600)] = THREAD_WAIT_SECONDS
    """How long a run waits for a thread that another process runs before it raises ThreadBusy."""
    budget: RunBudget = RunBudget()


class RunUsage(Value):
    """Usage of a run."""

    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


GRACE_S: Final = 1.0
"""How long cancelled work may take to clean up before it is abandoned."""
T = TypeVar("T")


class WorkCancelled(Exception):
    """Work outside of our control ended with a CancelledError that was not requested here."""


class RunDeadline:
    """The moment when a run's time is over, by its clock or by the event loop's, whichever comes first."""

    def __init__(self, clock: Clock, seconds: float | None, /) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._until_ms = None if seconds is None else clock.now() + seconds * 1000
        self._until_s = None if seconds is None else self._loop.time() + seconds

    @property
    def is_over(self) -> bool:
        if self._until_ms is None or self._until_s is None:
            return False
        return self._loop.time() >= self._until_s or self._clock.now() >= self._until_ms

    def remaining_s(self, otherwise: float, /) -> float:
        """Return the remaining seconds, or `otherwise` if there is no limit."""
        if self._until_ms is None or self._until_s is None:
            return otherwise
        return max(min((self._until_ms - self._clock.now()) / 1000, self._until_s - self._loop.time()), 0.0)

    def timeout_s(self, most: float | None = None, /) -> float | None:
        """Return the time limit of a piece of work, which on its own may take `most` seconds."""
        if self._until_ms is None:
            return most
        remaining_s = self.remaining_s(0)
        return remaining_s if most is None else min(remaining_s, most)

    async def paused(self, work: Coroutine[Any, Any, T], /) -> T:
        """Wait for a person's answer without counting that time towards the run."""
        at_ms, at_s = self._clock.now(), self._loop.time()
        try:
            return await finish_work(work)
        finally:
            if self._until_ms is not None and self._until_s is not None:
                self._until_ms += self._clock.now() - at_ms
                self._until_s += self._loop.time() - at_s


async def finish_work(work: Coroutine[Any, Any, T], /, *, timeout_s: float | None = None) -> T:
    """Return the result of work outside of our control.

    Raises TimeoutError if it takes longer than `timeout_s`, WorkCancelled if it cancelled itself, and its own errors.
    """
    task = asyncio.ensure_future(work)
    try:
        finished_tasks, _ = await asyncio.wait({task}, timeout=timeout_s)
    finally:
        if not task.done():
            await abandon_task(task)
    if not finished_tasks:
        raise TimeoutError
    if task.cancelled():
        raise WorkCancelled
    return task.result()


async def abandon_task(task: asyncio.Task[Any], /) -> None:
    """Cancel a task, and abandon it if it does not end in time. Its errors are dropped."""
    task.cancel()
    task.add_done_callback(_take_error)
    await asyncio.wait({task}, timeout=GRACE_S)


def _take_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


logger = logging.getLogger(__name__)
REFUSED = "This call was refused and not made: {reason}. Do not try it again unless the user asks for it."


class ApprovalRequest(Value):
    """A call that needs approval. `arguments` is untrusted JSON text from the model, for display."""

    run: str
    step: int
    tool: str
    arguments: str
    description: str = ""
    """Description of the tool."""


class HostApproval(Value):
    """The answer to an approval request. The model sees the `reason` of a denial."""

    is_granted: bool
    reason: str = ""


Approve = Callable[[ApprovalRequest], Awaitable[HostApproval | bool]]
"""Decide whether a call is made. The time it takes does not count towards the run's limit."""


class HostApprover:
    """Ask a host to approve calls of its own tools, except those that only read.

    The agent's own tools change only its memory and need no approval. Without `approve`, every call is approved.
    """

    def __init__(self, approve: Approve | None, tools: Collection[Tool], /) -> None:
        self._approve = approve
        self._tools = {tool.name: tool for tool in tools if not tool.read_only}

    @property
    def asks(self) -> bool:
        return self._approve is not None

    def is_needed(self, tool: str, /) -> bool:
        """Return whether a call of the tool needs approval."""
        return self._approve is not None and tool in self._tools

    async def ask(self, call: ToolCall, /, *, run: str, step: int, deadline: RunDeadline) -> HostApproval:
        """Return the host's answer. A failure counts as a denial, because nothing is done without approval."""
        assert self._approve is not None
        tool_description = self._tools[call.name].description
        request = ApprovalRequest(
            run=run, step=step, tool=call.name, arguments=call.arguments, description=tool_description
        )
        try:
            answer = await deadline.paused(self._answer(self._approve, request))
        except (Exception, WorkCancelled) as error:  # noqa: BLE001 - the host's code; its failure is a no
            logger.warning("a tool call could not be approved (%s)", type(error).__name__)
            return HostApproval(is_granted=False, reason="the host could not be reached for approval")
        return (
            answer if isinstance(answer, HostApproval) else HostApproval(is_granted=answer, reason="the user declined")
        )

    @staticmethod
    async def _answer(approve: Approve, request: ApprovalRequest) -> HostApproval | bool:
        return await approve(request)
