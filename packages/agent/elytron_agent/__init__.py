"""Agents with memory: turn hooks, memory strategies, core blocks and a durable agent loop.

Names are imported on first use.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_agent.agent_file.document": "AgentFile read_agent_file",
        "elytron_agent.agent_file.transfer": "AgentImport export_agent_file import_agent_file",
        "elytron_agent.blocks.archive": "ArchivalMemory",
        "elytron_agent.blocks.block_repository": "BlockDraft BlockRepository MemoryBlock",
        "elytron_agent.blocks.toolset": "BlockTools MemoryFiles ToolNaming",
        "elytron_agent.blocks.view": "AgentMemoryView",
        "elytron_agent.hooks.contract": "AfterTurn AfterTurnReport BeforeTurn BeforeTurnReport HookState",
        "elytron_agent.hooks.facts": "FactInsight",
        "elytron_agent.hooks.session": "TurnCode TurnInvalid",
        "elytron_agent.hooks.settings": "HookSettings",
        "elytron_agent.hooks.tree": "MemoryTree TreeEntry TreeListing",
        "elytron_agent.hooks.turn": "HookMetrics",
        "elytron_agent.hooks.turn_hooks": "HookedTurn TurnHooks",
        "elytron_agent.loop.agent": "Agent",
        "elytron_agent.loop.removal": "AgentRemoval SharedMemory delete_agent",
        "elytron_agent.loop.tools": (
            "McpToolServer MemoryMode SearxngSearch Subagent SubagentCreator WebResult WebSearch mcp_tools "
            "open_web_search"
        ),
        "elytron_agent.runs.events": (
            "AgentEvent AnswerDropped ContextGiven ReasoningSaid RunEnded RunStarted StepTaken StopReason "
            "TextSaid ThreadAwaited ToolAnswered ToolCalled TurnsCompacted"
        ),
        "elytron_agent.runs.settings": "AgentSettings ApprovalRequest Approve HostApproval RunBudget UserPreferences",
        "elytron_agent.strategies.curated_memory": "CuratedSettings CuratedStrategy",
        "elytron_agent.strategies.gateway": "GatewayPlace GatewayStrategy RunEvent RunEventKind stored_events",
        "elytron_agent.strategies.loader": (
            "LoadedStrategy MemorySection RuntimeSettings RuntimeStrategy StrategyMode load_strategy strategy_of"
        ),
        "elytron_agent.strategies.strategy": (
            "MemoryStrategy ReferencePlacement RunEnding RunMemory TurnExchange session_search"
        ),
        "elytron_agent.tool": "CallKey Tool ToolAnswer ToolArguments typed_tool",
        "elytron_models.chat_messages": "TurnItem",
        "elytron_turn.assembler": "PartCut RequestPart",
        "elytron_turn.compaction": "CompactionPlan",
        "elytron_turn.context": "WindowSummary",
    },
)
