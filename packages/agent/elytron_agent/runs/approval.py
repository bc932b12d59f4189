"""Approval of calls: a host is asked before a tool that it gave may change something."""

import logging
from collections.abc import Awaitable, Callable, Collection

from elytron_agent.runs.deadline import Deadline, WorkCancelled
from elytron_agent.tool import Tool
from elytron_core.model import Value
from elytron_core.ports.chat import ToolCall

logger = logging.getLogger(__name__)
REFUSED = "This call was refused and not made: {reason}. Do not try it again unless the user asks for it."


class ApprovalRequest(Value):
    """A call that waits for a yes. `arguments` is JSON text as the model wrote it: show it, and trust nothing in it."""

    run: str
    step: int
    tool: str
    arguments: str
    description: str = ""
    """Description of the tool."""


class Approval(Value):
    """Answer to a request. The model reads the `reason` of a no."""

    is_granted: bool
    reason: str = ""


Approve = Callable[[ApprovalRequest], Awaitable[Approval | bool]]
"""Answers whether a call is made. It may take its time: a run's budget of seconds does not count it."""


class Approver:
    """Asks a host about calls of the tools that it gave, but for those that only read.

    The agent's own tools change nothing but its memory, and are never asked about. Without `approve` all is granted.
    """

    def __init__(self, approve: Approve | None, tools: Collection[Tool], /) -> None:
        self._approve = approve
        self._tools = {tool.name: tool for tool in tools if not tool.read_only}

    @property
    def asks(self) -> bool:
        return self._approve is not None

    def is_needed(self, tool: str, /) -> bool:
        """Return whether a call of the tool waits for an answer."""
        return self._approve is not None and tool in self._tools

    async def ask(self, call: ToolCall, /, *, run: str, step: int, deadline: Deadline) -> Approval:
        """Return the host's answer. An answer that fails is a no: nothing is done without a yes."""
        assert self._approve is not None
        about = self._tools[call.name].description
        request = ApprovalRequest(run=run, step=step, tool=call.name, arguments=call.arguments, description=about)
        try:
            answer = await deadline.paused(self._answer(self._approve, request))
        except (Exception, WorkCancelled) as error:  # noqa: BLE001 - the host's code; its failure is a no
            logger.warning("a call of a tool could not be approved (%s)", type(error).__name__)
            return Approval(is_granted=False, reason="the host could not be asked")
        return answer if isinstance(answer, Approval) else Approval(is_granted=answer, reason="the user said no")

    @staticmethod
    async def _answer(approve: Approve, request: ApprovalRequest) -> Approval | bool:
        return await approve(request)
