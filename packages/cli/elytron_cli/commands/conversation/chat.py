"""Talking with an agent that remembers."""

import click

from elytron_cli.input.options import command, common
from elytron_cli.runner import run, settings
from elytron_cli.session import Session
from elytron_cli.terminal.output import Output
from elytron_core.errors import InvalidInput
from elytron_store import WhenMissing

OLLAMA_TOKENS = 16_384
"""What a local model is made to read, where nothing is said: more takes more memory."""


@command("chat")
@click.option("--model", metavar="MODEL", help="The model: ollama:llama3.2, openai:gpt-5, anthropic:..., name@URL.")
@click.option("--context-tokens", type=click.IntRange(1_000), metavar="N", help="How much the model reads.")
@click.option("--system", metavar="TEXT", help="Instruction in place of the usual one.")
@click.option("--no-tools", is_flag=True, help="Offer the model no tools; for models that know none.")
@common
def chat(*, model: str | None, context_tokens: int | None, system: str | None, no_tools: bool) -> int | None:
    """Talk with an agent that remembers, line by line; /help says what else a line can do."""
    from elytron_agent.blocks.shelf import BlockShelf
    from elytron_agent.context.limits import MAX_CONTEXT_TOKENS
    from elytron_agent.loop.agent import MAIN, Agent
    from elytron_agent.runs.settings import AgentSettings
    from elytron_cli.chat.conversation import Conversation
    from elytron_cli.chat.screen import Screen

    found = settings()
    address = model or (found.language_model.value if found.language_model is not None else None)
    if address is None:
        raise InvalidInput(field="--model", problem="is missing: write one such as ollama:llama3.2 or openai:gpt-5")
    usual = OLLAMA_TOKENS if address.startswith("ollama:") else MAX_CONTEXT_TOKENS
    wanted = AgentSettings(
        enabled=True,
        model=address,
        max_context_tokens=context_tokens or usual,
        system_prompt=system,
        uses_tools=not no_tools,
    )
    name = found.agent.value if found.agent is not None else MAIN

    async def work(session: Session, out: Output) -> int | None:
        memory = session.runtime
        blocks = BlockShelf(memory)
        async with Agent(memory, name=name, settings=wanted, blocks=blocks) as agent:
            return await Conversation(agent, blocks, Screen(out.is_json)).hold()

    return run(work, when_missing=WhenMissing.MAKE)
