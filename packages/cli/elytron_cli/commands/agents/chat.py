"""Commands for agents: chat with one, export and import agent files, delete one."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elytron_cli.chat.conversation import ApprovalMode, call_approver
from elytron_cli.input.options import OneOf, PageGroup, common_options, force_option, page_command, yes_option
from elytron_cli.input.values import read_file, require_free, write_file
from elytron_cli.session import CommandSession, run_settings, run_work
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import CommandOutput, confirm_question, safe_line
from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from elytron_agent.loop.tools import McpToolServer


OLLAMA_TOKENS = 16_384
"""Default context of a local model, in tokens; a longer one takes more memory."""


class AgentFileWritten(Value):
    """An agent file that was written."""

    path: str
    blocks: int
    messages: int


@page_command("chat")
@click.option("--model", metavar="MODEL", help="Model: ollama:llama3.2, openai:gpt-5, anthropic:..., name@URL.")
@click.option("--context-tokens", type=click.IntRange(1_000), metavar="N", help="Context size of the model, in tokens.")
@click.option("--system", metavar="TEXT", help="System prompt to use instead of the default one.")
@click.option("--no-tools", is_flag=True, help="Offer the model no tools, for models without tool support.")
@click.option("--no-history", is_flag=True, help="Do not save typed lines; sealed stores never do.")
@click.option("--mcp", multiple=True, metavar="NAME=COMMAND", help="Command or URL of an MCP server.")
@click.option("--mcp-config", type=click.Path(path_type=Path), metavar="FILE", help="JSON file with `mcpServers`.")
@click.option("--web-search", metavar="NAME=URL", help="Web search for the agent, for example searxng=http://...")
@click.option(
    "--approve", type=OneOf(ApprovalMode), help="Approval of tools that change something. [default: ask at a terminal]"
)
@common_options
def chat_command(
    *,
    model: str | None,
    context_tokens: int | None,
    system: str | None,
    no_tools: bool,
    no_history: bool,
    mcp: tuple[str, ...],
    mcp_config: Path | None,
    web_search: str | None,
    approve: ApprovalMode | None,
) -> int | None:
    """Chat with an agent that remembers; /help lists the commands within the chat."""
    from elytron_agent.blocks.block_repository import BlockRepository
    from elytron_agent.limits import MAX_CONTEXT_TOKENS
    from elytron_agent.loop.agent import Agent
    from elytron_agent.loop.tools import mcp_tools, open_web_search
    from elytron_agent.runs.journal import MAIN
    from elytron_agent.runs.settings import AgentSettings
    from elytron_cli.chat.conversation import PROMPT, ChatConversation, LineHistory, LineInput, history_path
    from elytron_cli.chat.screen import ChatScreen
    from elytron_models import address_of, require_key

    settings = run_settings()
    address = model or (settings.language_model.value if settings.language_model is not None else None)
    if address is None:
        raise InvalidInput(field="--model", problem="is missing: pass one such as ollama:llama3.2 or openai:gpt-5")
    servers = _mcp_servers(mcp, mcp_config, no_tools=no_tools)
    search = open_web_search(web_search) if web_search is not None else None
    require_key(address_of(address), os.environ)
    chat_settings = AgentSettings(
        enabled=True,
        model=address,
        max_context_tokens=context_tokens or (OLLAMA_TOKENS if address.startswith("ollama:") else MAX_CONTEXT_TOKENS),
        system_prompt=system,
        uses_tools=not no_tools,
    )
    name = settings.agent.value if settings.agent is not None else MAIN
    has_keys = settings.key_file is not None or settings.keys is not None
    title = f"Agent {name!r} with {address}, in the space {settings.space.value!r} of {settings.store.masked_value}"

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        memory = session.runtime
        block_repository = BlockRepository(memory, agent=name)
        blocks = block_repository if await block_repository.list() else BlockRepository(memory)
        history = None if no_history or has_keys else LineHistory(history_path())
        lines = LineInput(history=history, prompt="" if out.is_json else PROMPT)
        screen = ChatScreen(out.is_json)
        asker = call_approver(approve, lines, screen)
        async with (
            mcp_tools(servers) as tools,
            Agent(
                memory, None, tools, name=name, settings=chat_settings, blocks=blocks, approve=asker, web_search=search
            ) as agent,
        ):
            return await ChatConversation(agent, blocks, screen, lines).hold(title)

    return run_work(work, when_missing=WhenMissing.MAKE)


def _mcp_servers(options: tuple[str, ...], config: Path | None, *, no_tools: bool) -> "list[McpToolServer]":
    """Return the servers named by options. Raises InvalidInput, UnreadableFile."""
    from elytron_agent.loop.tools import mcp_server_of, mcp_servers_of

    servers = [mcp_server_of(each) for each in options]
    servers += mcp_servers_of(read_file(config)) if config is not None else ()
    if servers and no_tools:
        raise InvalidInput(field="--mcp", problem="adds tools, but --no-tools offers none: remove one of the two")
    return servers


@click.group("agent", cls=PageGroup)
@common_options
def agent_group() -> None:
    """Import and export agent files (.af), or delete an agent."""


@agent_group.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="Name of the agent. [default: the name in FILE]")
@common_options
def import_agent(*, file: Path, name: str | None) -> int | None:
    """Import an agent from FILE, a Letta export: its blocks, and its messages as untrusted evidence.

    Its system prompt, tools and settings are preserved for export but not used. Credentials are redacted.
    """
    from elytron_agent import import_agent_file, read_agent_file
    from elytron_agent.limits import FILE_BYTES

    agent_file = read_agent_file(read_file(file, limit=FILE_BYTES))

    async def work(session: CommandSession, out: CommandOutput) -> None:
        report = await import_agent_file(session.runtime, agent_file, name=name)

        rows = [("agents", ", ".join(report.agents))]
        counts = (("blocks", report.blocks), ("messages", report.messages), ("other parts", report.parts))
        rows += [(name, str(count)) for name, count in counts]
        rows.append(("skipped", "; ".join(report.left_out)))
        rows.append(("redacted", ", ".join(f"{count} {kind}" for kind, count in report.redacted.items())))
        rows.append(("chat with it", f"elytron --agent {shlex.quote(report.agents[0])} chat"))
        out.report(report, lambda console, _: tables_layout.show_pairs(console, rows))

    return run_work(work, when_missing=WhenMissing.MAKE)


@agent_group.command("export")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@force_option
@common_options
def export_agent(*, name: str, file: Path, force: bool) -> int | None:
    """Write the agent NAME to FILE as an agent file (.af): its blocks and its conversation."""
    from elytron_agent import export_agent_file

    require_free(file, force=force)

    async def work(session: CommandSession, out: CommandOutput) -> None:
        agent_file = await export_agent_file(session.runtime, name)
        write_file(file, agent_file.text(), force=force)
        messages = sum(len(each["messages"]) for each in agent_file.agents)
        report = AgentFileWritten(path=str(file), blocks=len(agent_file.blocks), messages=messages)
        rows = [("file", report.path), ("blocks", str(report.blocks)), ("messages", str(messages))]
        out.report(report, lambda console, _: tables_layout.show_pairs(console, rows))

    return run_work(work)


@agent_group.command("delete")
@click.argument("name")
@click.option("--reason", default="", metavar="TEXT", help="Reason, recorded in the history.")
@click.option("--dry-run", is_flag=True, help="Show what would be erased without erasing it.")
@yes_option
@common_options
def delete_command(*, name: str, reason: str, dry_run: bool, yes: bool) -> int | None:
    """Erase the agent NAME and its subagents: threads, runs, own blocks and own memory. Shared memory stays."""
    from elytron_agent import delete_agent

    async def work(session: CommandSession, out: CommandOutput) -> None:
        if not dry_run:
            confirm_question(f"Erase the agent {safe_line(name)!r}? This cannot be undone.", yes=yes)
        report = await delete_agent(session.runtime, name, reason=reason, dry_run=dry_run)
        erased_phrase = "would be erased" if dry_run else "erased"
        rows = [(erased_phrase, ", ".join(report.agents))]
        rows += [("records", str(report.records)), ("memories", str(report.memories))]
        out.report(report, lambda console, _: tables_layout.show_pairs(console, rows))

    return run_work(work)
