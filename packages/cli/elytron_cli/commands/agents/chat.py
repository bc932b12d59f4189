"""Agents that remember: a talk with one, agent files, and the end of one."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elytron_cli.chat.conversation import ApprovalMode, call_approver
from elytron_cli.input.options import OneOf, PageGroup, common_options, force_option, page_command, yes_option
from elytron_cli.input.values import read_file, require_free, write_file
from elytron_cli.session import CommandSession, run_settings, run_work
from elytron_cli.tables import common as tables_common
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
@click.option("--model", metavar="MODEL", help="The model: ollama:llama3.2, openai:gpt-5, anthropic:..., name@URL.")
@click.option("--context-tokens", type=click.IntRange(1_000), metavar="N", help="How much the model reads.")
@click.option("--system", metavar="TEXT", help="Instruction in place of the usual one.")
@click.option("--no-tools", is_flag=True, help="Offer the model no tools; for models that know none.")
@click.option("--no-history", is_flag=True, help="Keep no file of what is typed; a sealed store never has one.")
@click.option("--mcp", multiple=True, metavar="NAME=COMMAND", help="Tools of an MCP server: its command or URL.")
@click.option("--mcp-config", type=click.Path(path_type=Path), metavar="FILE", help="A JSON file with `mcpServers`.")
@click.option("--web-search", metavar="NAME=URL", help="A web search for the agent, such as searxng=http://...")
@click.option(
    "--approve", type=OneOf(ApprovalMode), help="Tools that may change something: ask at a terminal, else none."
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
    """Talk with an agent that remembers, line by line; /help says what else a line can do."""
    from elytron_agent.blocks.shelf import BlockShelf
    from elytron_agent.limits import MAX_CONTEXT_TOKENS
    from elytron_agent.loop.agent import Agent
    from elytron_agent.loop.tools import mcp_tools, open_web_search
    from elytron_agent.runs.journal import MAIN
    from elytron_agent.runs.settings import AgentSettings
    from elytron_cli.chat.conversation import PROMPT, ChatConversation, LineHistory, LineInput, history_path
    from elytron_cli.chat.screen import ChatScreen
    from elytron_models import address_of, require_key

    found = run_settings()
    address = model or (found.language_model.value if found.language_model is not None else None)
    if address is None:
        raise InvalidInput(field="--model", problem="is missing: write one such as ollama:llama3.2 or openai:gpt-5")
    servers = _mcp_servers(mcp, mcp_config, no_tools=no_tools)
    search = open_web_search(web_search) if web_search is not None else None
    require_key(address_of(address), os.environ)
    wanted = AgentSettings(
        enabled=True,
        model=address,
        max_context_tokens=context_tokens or (OLLAMA_TOKENS if address.startswith("ollama:") else MAX_CONTEXT_TOKENS),
        system_prompt=system,
        uses_tools=not no_tools,
    )
    name = found.agent.value if found.agent is not None else MAIN
    is_sealed = found.key_file is not None or found.keys is not None
    place = f"Agent {name!r} with {address}, in the space {found.space.value!r} of {found.store.shown}"

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        memory = session.runtime
        own = BlockShelf(memory, agent=name)
        blocks = own if await own.list() else BlockShelf(memory)
        history = None if no_history or is_sealed else LineHistory(history_path())
        lines = LineInput(history=history, prompt="" if out.is_json else PROMPT)
        screen = ChatScreen(out.is_json)
        asking = call_approver(approve, lines, screen)
        async with (
            mcp_tools(servers) as tools,
            Agent(
                memory, None, tools, name=name, settings=wanted, blocks=blocks, approve=asking, web_search=search
            ) as agent,
        ):
            return await ChatConversation(agent, blocks, screen, lines).hold(place)

    return run_work(work, when_missing=WhenMissing.MAKE)


def _mcp_servers(named: tuple[str, ...], config: Path | None, *, no_tools: bool) -> "list[McpToolServer]":
    """Return the servers that options name. Raises InvalidInput, UnreadableFile."""
    from elytron_agent.loop.tools import mcp_server_of, mcp_servers_of

    servers = [mcp_server_of(each) for each in named]
    servers += mcp_servers_of(read_file(config)) if config is not None else ()
    if servers and no_tools:
        raise InvalidInput(field="--mcp", problem="gives tools, and --no-tools offers none: leave one of them out")
    return servers


@click.group("agent", cls=PageGroup)
@common_options
def agent_group() -> None:
    """Take agents in from agent files (.af), write such files, delete an agent."""


@agent_group.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="What the agent is called here; else as in FILE.")
@common_options
def import_agent(*, file: Path, name: str | None) -> int | None:
    """Import an agent from FILE, an export of Letta: its blocks, and its messages as evidence from outside.

    Its instruction, tools and settings are kept for an export, and not used. Credentials are blacked out.
    """
    from elytron_agent import import_agent_file, read_agent_file
    from elytron_agent.limits import FILE_BYTES

    read = read_agent_file(read_file(file, limit=FILE_BYTES))

    async def work(session: CommandSession, out: CommandOutput) -> None:
        report = await import_agent_file(session.runtime, read, name=name)

        rows = [("agents", ", ".join(report.agents))]
        counts = (("blocks", report.blocks), ("messages", report.messages), ("other parts", report.parts))
        rows += [(name, str(count)) for name, count in counts]
        rows.append(("left out", "; ".join(report.left_out)))
        rows.append(("blacked out", ", ".join(f"{count} {kind}" for kind, count in report.redacted.items())))
        rows.append(("talk with it", f"elytron --agent {shlex.quote(report.agents[0])} chat"))
        out.report(report, lambda console, _: tables_common.show_pairs(console, rows))

    return run_work(work, when_missing=WhenMissing.MAKE)


@agent_group.command("export")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@force_option
@common_options
def export_agent(*, name: str, file: Path, force: bool) -> int | None:
    """Write the agent NAME to FILE as an agent file (.af): its blocks, and what was said with it."""
    from elytron_agent import export_agent_file

    require_free(file, force=force)

    async def work(session: CommandSession, out: CommandOutput) -> None:
        found = await export_agent_file(session.runtime, name)
        write_file(file, found.text(), force=force)
        messages = sum(len(each["messages"]) for each in found.agents)
        report = AgentFileWritten(path=str(file), blocks=len(found.blocks), messages=messages)
        rows = [("file", report.path), ("blocks", str(report.blocks)), ("messages", str(messages))]
        out.report(report, lambda console, _: tables_common.show_pairs(console, rows))

    return run_work(work)


@agent_group.command("delete")
@click.argument("name")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is kept in the history.")
@click.option("--dry-run", is_flag=True, help="Only say what would be erased.")
@yes_option
@common_options
def delete_command(*, name: str, reason: str, dry_run: bool, yes: bool) -> int | None:
    """Erase the agent NAME and its subagents: threads, runs, own blocks and own memory. What agents share stays."""
    from elytron_agent import delete_agent

    async def work(session: CommandSession, out: CommandOutput) -> None:
        if not dry_run:
            confirm_question(f"Erase the agent {safe_line(name)!r}, with no way back?", yes=yes)
        report = await delete_agent(session.runtime, name, reason=reason, dry_run=dry_run)
        erased = "would be erased" if dry_run else "erased"
        rows = [(erased, ", ".join(report.agents))]
        rows += [("records", str(report.records)), ("memories", str(report.memories))]
        out.report(report, lambda console, _: tables_common.show_pairs(console, rows))

    return run_work(work)
