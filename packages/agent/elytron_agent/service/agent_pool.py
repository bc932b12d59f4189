"""Agents of users between their turns, and the models that they share."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from elytron.context import OperationContext
from elytron_agent.loop.tools.run_tools import MemoryMode
from elytron_agent.runs.parts import ClientPart
from elytron_agent.runs.settings import AgentSettings, UserPreferences
from elytron_agent.service import limits
from elytron_agent.service.companion import AgentPart, KnownAgent, ServiceSettings, UserAgents, config_of
from elytron_agent.service.thread_items import ThreadItems, item_name
from elytron_agent.service.wire import REACT, ItemReaction, ItemRole, ReactArguments
from elytron_agent.tool import CallKey, Tool, typed_tool
from elytron_core.lru_cache import LruCache
from elytron_models.client import ModelClient, open_model

if TYPE_CHECKING:
    from elytron_agent.loop.agent import Agent

ToolMaker = Callable[[UserAgents, KnownAgent], Sequence[Tool]]
"""Returns further tools of an agent."""


def react_tool(items: ThreadItems, /) -> Tool:
    """Return the tool by which an agent reacts to the message that its run answers."""

    async def act(given: ReactArguments, key: CallKey, /) -> str:
        await items.react(item_name(key.run, 0), ItemReaction(emoji=given.emoji, by=ItemRole.ASSISTANT))
        return "Done."

    about = "React to the user's message with an emoji, beside an answer or in the place of one. Use it rarely."
    return typed_tool(REACT, about, ReactArguments, act, may_repeat=True)


class AgentPool:
    """The agents that this process runs, each made again when its settings have changed."""

    def __init__(
        self, context: OperationContext, settings: ServiceSettings, /, *, tools: Sequence[ToolMaker] = ()
    ) -> None:
        self._context = context
        self._settings = settings
        self._makers = tuple(tools)
        self._models: dict[str, ModelClient] = {}
        self._agents: LruCache[tuple[str, str], tuple[object, Agent]] = LruCache(limits.AGENTS_KEPT)

    async def agent(self, user: UserAgents, known: KnownAgent, /) -> "Agent":
        """Return the agent, with its settings as they are now."""
        place = (user.space, known.id)
        preferences = await user.preferences()
        kept = self._agents.use(place)
        if kept is not None and kept[0] == (known.version, preferences):
            return kept[1]
        made = self._made(user.itself(self._context), known, preferences)
        self._agents[place] = ((known.version, preferences), made)
        return made

    def response_agent(
        self, user: UserAgents, thread: str, settings: AgentSettings, client: ClientPart, model: str, /
    ) -> "Agent":
        """Return an agent for one turn in a thread of responses, which its caller closes."""
        from elytron_agent.loop.agent import Agent

        served = self._settings
        return Agent(
            user.itself(self._context).memory,
            self.model(model),
            name=thread,
            settings=settings,
            web_search=served.web_search,
            summary_model=self.model(served.summary_model) if served.summary_model is not None else None,
            vision_model=self.model(served.vision_model) if served.vision_model is not None else None,
            client=client,
            clock=self._context.clock,
            ids=self._context.ids,
        )

    def settings_of(self, known: KnownAgent, preferences: UserPreferences, /) -> AgentSettings:
        """Return the settings of an agent's turns."""
        config = config_of(known, self._settings)
        return AgentSettings(
            enabled=True,
            max_context_tokens=config.max_context_tokens,
            compaction_threshold=config.compaction_threshold,
            system_prompt=config.system_prompt,
            preferences=preferences,
            uses_tools=config.tools and AgentPart.TOOLS not in self._settings.off,
            compacts=config.compaction,
            wait_seconds=limits.TURN_WAIT_S,
            budget=self._settings.budget,
        )

    def forget(self, user: UserAgents, known: KnownAgent, /) -> None:
        """Let go of an agent that was erased."""
        self._agents.pop((user.space, known.id), None)

    def forget_space(self, space: str, /) -> None:
        """Let go of all agents of a space."""
        for place in [place for place in self._agents if place[0] == space]:
            del self._agents[place]

    async def close(self) -> None:
        """Let go of the models' connections."""
        agents = [agent for _, agent in self._agents.values()]
        self._agents.clear()
        for agent in agents:
            await agent.close()
        for model in self._models.values():
            await model.close()
        self._models.clear()

    def _made(self, user: UserAgents, known: KnownAgent, preferences: UserPreferences) -> "Agent":
        from elytron_agent.loop.agent import Agent

        settings, config = self._settings, config_of(known, self._settings)
        wanted = self.settings_of(known, preferences)
        own = [react_tool(user.items(known)), *(tool for maker in self._makers for tool in maker(user, known))]
        return Agent(
            user.memory,
            self.model(settings.model_named(config.model)),
            own if wanted.uses_tools else (),
            name=known.name,
            purpose=known.subagent.purpose if known.subagent is not None else "",
            settings=wanted,
            web_search=settings.web_search,
            summary_model=self.model(settings.summary_model) if settings.summary_model is not None else None,
            vision_model=self.model(settings.vision_model) if settings.vision_model is not None else None,
            memory_mode=known.subagent.memory if known.subagent is not None else MemoryMode.SHARED,
            clock=self._context.clock,
            ids=self._context.ids,
        )

    def model(self, address: str, /) -> ModelClient:
        """Return a model of the server, opened once."""
        known = self._models.get(address)
        if known is None:
            known = self._models[address] = open_model(address)
        return known
