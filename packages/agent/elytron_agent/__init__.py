"""Agents that remember: turn hooks, memory strategies, core blocks, and a durable loop.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron_agent.blocks.archive import Archive
    from elytron_agent.blocks.block import Block, BlockDraft
    from elytron_agent.blocks.memory_files import MemoryFiles
    from elytron_agent.blocks.shelf import BlockShelf
    from elytron_agent.blocks.toolset import BlockTools, Naming
    from elytron_agent.context.compaction import CompactionPlan
    from elytron_agent.context.window import Summary
    from elytron_agent.hooks.contract import AfterTurn, AfterTurnReport, BeforeTurn, BeforeTurnReport, HookState
    from elytron_agent.hooks.facts.insights import Insight
    from elytron_agent.hooks.items import TurnItem
    from elytron_agent.hooks.metrics import HookMetrics
    from elytron_agent.hooks.session import TurnCode, TurnInvalid
    from elytron_agent.hooks.settings import HookSettings
    from elytron_agent.hooks.tree.folder import TreeEntry, TreeListing
    from elytron_agent.hooks.tree.memory_tree import MemoryTree
    from elytron_agent.hooks.turn_hooks import HookedTurn, TurnHooks
    from elytron_agent.loop.agent import Agent
    from elytron_agent.loop.tools.subagents import Creator, MemoryMode, Subagent
    from elytron_agent.loop.tools.web_search import WebResult, WebSearch
    from elytron_agent.runs.events import (
        AgentEvent,
        AnswerDropped,
        Compacted,
        ContextGiven,
        ReasoningSaid,
        RunEnded,
        RunStarted,
        StepTaken,
        StopReason,
        TextSaid,
        ToolAnswered,
        ToolCalled,
    )
    from elytron_agent.runs.settings import AgentSettings, Preferences, RunBudget
    from elytron_agent.strategies.curated_memory import CuratedSettings, CuratedStrategy
    from elytron_agent.strategies.events import RunEvent, RunEventKind, stored_events
    from elytron_agent.strategies.gateway import GatewayPlace, GatewayStrategy
    from elytron_agent.strategies.loader import LoadedStrategy, MemorySection, Mode, load_strategy, strategy_of
    from elytron_agent.strategies.runtime import RuntimeSettings, RuntimeStrategy
    from elytron_agent.strategies.session_search import session_search
    from elytron_agent.strategies.strategy import Ending, Exchange, MemoryStrategy, Placement, RunMemory
    from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool

_HOMES = {
    "elytron_agent.blocks.archive": "Archive",
    "elytron_agent.blocks.block": "Block BlockDraft",
    "elytron_agent.blocks.memory_files": "MemoryFiles",
    "elytron_agent.blocks.shelf": "BlockShelf",
    "elytron_agent.blocks.toolset": "BlockTools Naming",
    "elytron_agent.context.compaction": "CompactionPlan",
    "elytron_agent.context.window": "Summary",
    "elytron_agent.hooks.contract": "AfterTurn AfterTurnReport BeforeTurn BeforeTurnReport HookState",
    "elytron_agent.hooks.facts.insights": "Insight",
    "elytron_agent.hooks.items": "TurnItem",
    "elytron_agent.hooks.metrics": "HookMetrics",
    "elytron_agent.hooks.session": "TurnCode TurnInvalid",
    "elytron_agent.hooks.settings": "HookSettings",
    "elytron_agent.hooks.turn_hooks": "HookedTurn TurnHooks",
    "elytron_agent.loop.agent": "Agent",
    "elytron_agent.runs.events": (
        "AgentEvent AnswerDropped Compacted ContextGiven ReasoningSaid RunEnded RunStarted StepTaken StopReason "
        "TextSaid ToolAnswered ToolCalled"
    ),
    "elytron_agent.runs.settings": "AgentSettings Preferences RunBudget",
    "elytron_agent.loop.tools.subagents": "Creator MemoryMode Subagent",
    "elytron_agent.loop.tools.web_search": "WebResult WebSearch",
    "elytron_agent.strategies.curated_memory": "CuratedSettings CuratedStrategy",
    "elytron_agent.strategies.events": "RunEvent RunEventKind stored_events",
    "elytron_agent.strategies.gateway": "GatewayPlace GatewayStrategy",
    "elytron_agent.strategies.loader": "LoadedStrategy MemorySection Mode load_strategy strategy_of",
    "elytron_agent.strategies.runtime": "RuntimeSettings RuntimeStrategy",
    "elytron_agent.strategies.session_search": "session_search",
    "elytron_agent.strategies.strategy": "Ending Exchange MemoryStrategy Placement RunMemory",
    "elytron_agent.tool": "CallKey Tool ToolAnswer ToolArguments typed_tool",
    "elytron_agent.hooks.tree.folder": "TreeEntry TreeListing",
    "elytron_agent.hooks.tree.memory_tree": "MemoryTree",
}

__all__ = [
    "AfterTurn",
    "AfterTurnReport",
    "Agent",
    "AgentEvent",
    "AgentSettings",
    "AnswerDropped",
    "Archive",
    "BeforeTurn",
    "BeforeTurnReport",
    "Block",
    "BlockDraft",
    "BlockShelf",
    "BlockTools",
    "CallKey",
    "Compacted",
    "CompactionPlan",
    "ContextGiven",
    "Creator",
    "CuratedSettings",
    "CuratedStrategy",
    "Ending",
    "Exchange",
    "GatewayPlace",
    "GatewayStrategy",
    "HookMetrics",
    "HookSettings",
    "HookState",
    "HookedTurn",
    "Insight",
    "LoadedStrategy",
    "MemoryFiles",
    "MemoryMode",
    "MemorySection",
    "MemoryStrategy",
    "MemoryTree",
    "Mode",
    "Naming",
    "Placement",
    "Preferences",
    "ReasoningSaid",
    "RunBudget",
    "RunEnded",
    "RunEvent",
    "RunEventKind",
    "RunMemory",
    "RunStarted",
    "RuntimeSettings",
    "RuntimeStrategy",
    "StepTaken",
    "StopReason",
    "Subagent",
    "Summary",
    "TextSaid",
    "Tool",
    "ToolAnswer",
    "ToolAnswered",
    "ToolArguments",
    "ToolCalled",
    "TreeEntry",
    "TreeListing",
    "TurnCode",
    "TurnHooks",
    "TurnInvalid",
    "TurnItem",
    "WebResult",
    "WebSearch",
    "load_strategy",
    "session_search",
    "stored_events",
    "strategy_of",
    "typed_tool",
]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names
    __getattr__ = _loading(__name__, _HOMES)
