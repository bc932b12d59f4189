"""The commands in their groups and the options of all of them; and the page of help that shows both.

Nothing is imported for it that takes long: `elytron --help` answers as quickly as the interpreter starts.
"""

import os
from collections.abc import Iterator, Sequence

TYPE_CHECKING = False

if TYPE_CHECKING:
    import click


GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Keep and find": {
        "chat": ("agents.chat:chat_command", "Talk with an agent that remembers."),
        "agent": (
            "agents.chat:agent_group",
            "Take agents in from agent files (.af), write such files, delete an agent.",
        ),
        "add": ("memories:add_command", "Store a text as evidence."),
        "import": ("archive:import_file", "Read a transcript or an archive into the space."),
        "recall": ("memories:recall_command", "Find what answers a question."),
        "project": ("memories:project_command", "Show the block a model would see."),
        "list": ("memories:list_memories", "List memories in the order in which they were stored."),
        "get": ("memories:get_command", "Show one memory."),
        "history": ("memories:history_command", "Show what happened to one memory."),
    },
    "Facts, skills and the rest": {
        "facts": ("facts:facts_group", "Read and change facts, forget them by query, and say what is not learned."),
        "profile": ("facts:profile_command", "Show what is known of a person, grouped and cited."),
        "candidates": ("facts:candidates_group", "See proposed beliefs that wait, and decide on them."),
        "skills": ("skills:skills_group", "See and govern what was learned; see agent skills in directories."),
        "tools": ("agents.tools:tools_group", "Tell which tools the host has; see what use has taught of them."),
        "records": ("records:records_group", "Keep JSON values under namespaces and keys."),
        "notes": ("continuity:notes_group", "Read and write notes on days and months."),
        "garden": ("continuity:garden_group", "See and write what a persona keeps to itself."),
        "continuity": ("continuity:continuity_group", "See the state of a conversation, and take it elsewhere."),
        "subjects": ("continuity:subjects_group", "See who takes part in the space."),
        "evolve": ("agents.evaluation:evolve_group", "Try proposed changes on a copy, and submit them."),
    },
    "Correct and erase": {
        "correct": ("memories:correct_command", "Replace the content of a fact or message; history stays."),
        "forget": ("memories:forget_command", "Hide memories from recall; --undo brings them back."),
        "erase": ("memories:erase_command", "Remove memories physically; there is no way back."),
        "erasures": ("archive:erasures_group", "Keep what was erased in a file, and erase it again in an older copy."),
    },
    "Keep in order": {
        "maintain": ("maintenance:maintain_command", "Maintain memory now: facts, summary, notes, skills."),
        "compact": ("maintenance:compact_command", "Replace each run of emptied journal entries by one."),
        "jobs": ("maintenance:jobs_commands", "See and do what was put off."),
        "model": ("agents.model:model_group", "Add, list, remove and switch the models that compare meanings."),
    },
    "Look and check": {
        "spaces": ("inspection:spaces_command", "List the spaces of the store."),
        "inspect": ("inspection:inspect_command", "Say what the space holds; --check reads every byte."),
        "doctor": ("inspection:doctor_command", "Say what is configured and whether the store is sound."),
        "verify": (
            "inspection:verify_command",
            "Say whether the store still holds what it held: heads kept elsewhere.",
        ),
        "transcript": (
            "memories:transcript_group",
            "Show a conversation through a view; put its text away or delete it.",
        ),
        "replay": ("agents.evaluation:replay_command", "Show a conversation's turns, or replay fixtures on stores."),
        "evaluate": (
            "agents.evaluation:evaluate_group",
            "Measure how well memory does its work: rates beside their bars.",
        ),
    },
    "Take along": {
        "export": ("archive:export_command", "Write the space to an archive file."),
        "restore": ("archive:restore_command", "Bring a backup back as the store, or an archive into a space."),
        "backup": ("archive:backup_command", "Copy the whole store to a file, while it is in use."),
        "migrate": ("archive:migrate_command", "Copy every space into another store."),
    },
    "Serve and connect": {
        "serve": ("servers.serve:serve_command", "Serve the store over HTTP."),
        "console": ("servers.server:console_command", "Show the store in a browser: see, search, correct, erase."),
        "proxy": ("servers.server:proxy_command", "Serve a model server's API with memory added."),
        "server": ("servers.server:server_group", "End a server that runs on this machine."),
        "mcp": ("servers.serve:mcp_group", "Serve the space to an MCP host; print what to paste into it."),
        "hooks": ("agents.hooks:hooks_group", "Recall and keep without being asked, as hooks of a coding agent."),
        "rules": ("agents.hooks:rules_group", "Tell agents how to use this memory: rules for twelve programs."),
        "client": ("servers.client:client_group", "Call a memory on a server: every operation by its name."),
        "gateway": ("servers.gateway:gateway_group", "Call a Memory Gateway: memories, resources, searches."),
        "access": ("servers.access:access_group", "Make and revoke the keys with which a server is called."),
        "platform": ("inspection:platform_commands", "Say what a memory can do, in a profile or here."),
    },
    "Begin and set up": {
        "demo": (
            "agents.demo:demo_group",
            "Try it: a year of conversation, ten questions, no key and no model; demo proxy.",
        ),
        "config": ("config:config_group", "Show each setting and where it came from."),
        "keys": ("servers.access:keys_group", "Make and rotate the keys of sealed stores."),
        "secret": ("servers.secret:secret_group", "Put a space under its user's own words or passphrase."),
        "completion": ("config:completion_command", "Print what lets a shell complete commands and options."),
        "version": ("version:version_command", "Print the version."),
    },
}
"""Each command's module and function, and its line in the help."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("--store", "URL", "Path or URL of the store."),
    ("--space", "NAME", "Memory space: whose memory. --owner is the same."),
    ("--agent", "NAME", "The agent that speaks."),
    ("--channel", "NAME", "The channel of the conversation."),
    ("--chat", "NAME", "The chat, where a host names its conversations so."),
    ("--profile", "NAME", "The host profile, which sets the limits."),
    ("--key-file", "PATH", "Keys of a sealed store."),
    ("--embedder", "NAME", "Model to compare meanings."),
    ("--language-model", "MODEL", "Model that maintains memory: openai:gpt-5, ollama:llama3.2, ..."),
    ("--agent-skill-dirs", "PATHS", f"Directories of agent skills to read, separated by {os.pathsep!r}."),
)
"""The options of every command that name something: name, what for, and what is said of it."""
ALIASES = {"--space": ("--owner",)}
"""Other spellings of an option."""
FLAGS = (
    ("--json / --no-json", "Print reports as JSON; without, JSON unless at a terminal."),
    ("--version", "Show the version and exit."),
    ("-h, --help", "Show this message and exit."),
)
ABOUT = (
    "Governed memory for AI agents: keep what was said, recall it, show a model its part, and erase it for good.",
    "Options may come before or after the command. Without --store, a database in your own data folder is used.",
    "`elytron demo` needs nothing at all.",
)
_WIDTH = 80
_LEFT = 28


def command_page() -> str:
    """Return the help of the whole command."""
    lines = ["Usage: elytron [OPTIONS] COMMAND [ARGS]...", ""]
    for text in ABOUT:
        lines += [*wrap_text(text, 2), ""]
    for group, commands in GROUPS.items():
        lines += [
            f"{group}:",
            *(line for name, (_, told) in commands.items() for line in table_rows(name, told, 14)),
            "",
        ]
    options = [*((f"{name} {what}", told) for name, what, told in OPTIONS), *FLAGS]
    lines += ["Options:", *(line for name, told in options for line in table_rows(name, told, _LEFT))]
    return "\n".join(lines)


def table_rows(name: str, told: str, left: int, /) -> list[str]:
    """Return the lines of a table's row; a name that is too long for its column has a line of its own."""
    first, *rest = wrap_text(told, left)
    if len(name) + 3 > left:
        return [f"  {name}", first, *rest]
    return [f"  {name}".ljust(left) + first.lstrip(), *rest]


def wrap_text(text: str, left: int, /) -> list[str]:
    """Return `text` in lines of the page's width, `left` spaces before each."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + left >= _WIDTH - 1:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return [" " * left + line for line in lines]


Page = tuple[str, str]
"""A command's words, joined by spaces, and its page."""
PARTING = "\f"
"""Separator of two pages in a kept file."""
FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "help")  # noqa: PTH118, PTH120 - pathlib takes long to load
"""Folder of the kept pages, a file for each command."""
_COMMON = frozenset(name for name, _, _ in OPTIONS) | {"--json", "--help"}
_SPELT = ", ".join("/".join((name, *ALIASES.get(name, ()))) for name, _, _ in OPTIONS)
_EVERYWHERE = f"Options of every command, see `elytron --help`: {_SPELT}, --json."
_OWN_LEFT = 26


def kept_page(words: Sequence[str], /) -> str | None:
    """Return the kept page of the command that `words` name, None if there is none."""
    if not words or words[0] not in COMMANDS:
        return None
    try:
        with open(os.path.join(FOLDER, f"{words[0]}.txt"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - quicker
            return dict(_parted_pages(file.read())).get(" ".join(words))
    except FileNotFoundError:
        return None


def page_of(context: "click.Context", /) -> str:
    """Return the page of the command of `context`."""
    command = context.command
    lines = [" ".join(["Usage:", context.command_path, *command.collect_usage_pieces(context)]), ""]
    for paragraph in (command.help or "").partition("\f")[0].strip().split("\n\n"):
        lines += [*wrap_text(" ".join(paragraph.split()), 2), ""]
    own = [record for one in command.get_params(context) if (record := _option_told(one, context)) is not None]
    parts = {"Commands": list(_listed_subcommands(command, context)), "Options": own}
    for title, found in parts.items():
        if found:
            lines += [f"{title}:", *(line for name, told in found for line in table_rows(name, told, _OWN_LEFT)), ""]
    if any("--store" in one.opts for one in command.get_params(context)):
        lines += wrap_text(_EVERYWHERE, 0)
    return "\n".join(lines).rstrip()


def _option_told(parameter: "click.Parameter", context: "click.Context") -> tuple[str, str] | None:
    if not _COMMON.isdisjoint(parameter.opts):
        return None
    record = parameter.get_help_record(context)
    return record if record is not None and record[1] else None


def _listed_subcommands(command: "click.Command", context: "click.Context") -> Iterator[tuple[str, str]]:
    import click

    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield name, found.get_short_help_str(limit=200)


def _parted_pages(text: str) -> Iterator[Page]:
    for page in text.split(PARTING):
        words, _, told = page.partition("\n")
        yield words, told.rstrip("\n")
