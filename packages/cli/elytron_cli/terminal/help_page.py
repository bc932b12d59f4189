"""Command groups, global options, and the help page that lists both.

It imports nothing slow: `elytron --help` answers as soon as the interpreter has started.
"""

import os
from collections.abc import Iterator, Sequence

TYPE_CHECKING = False

if TYPE_CHECKING:
    import click


GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Store and recall": {
        "chat": ("agents.chat:chat_command", "Chat with an agent that remembers."),
        "agent": ("agents.chat:agent_group", "Import and export agent files (.af), or delete an agent."),
        "add": ("memories:add_command", "Store a text as evidence."),
        "import": ("file_import:import_file", "Import a transcript or an archive into the space."),
        "recall": ("memories:recall_command", "Find the memories that answer a query."),
        "project": ("memories:project_command", "Show the memory block that a model would see."),
        "list": ("memories:list_memories", "List memories in the order they were stored."),
        "get": ("memories:get_command", "Show one memory."),
        "history": ("memories:history_command", "Show the history of one memory."),
    },
    "Facts, skills and records": {
        "facts": ("facts:facts_group", "Read, change and forget facts, and choose what is never learned."),
        "profile": ("facts:profile_command", "Show what is known about a person, grouped and cited."),
        "candidates": ("facts:candidates_group", "Review proposed beliefs that await a decision."),
        "skills": ("skills:skills_group", "Manage learned skills, and list agent skills in directories."),
        "tools": ("agents.tools:tools_group", "Register a host's tools, and show what was learned from their use."),
        "records": ("records:records_group", "Store JSON values under namespaces and keys."),
        "notes": ("continuity:notes_group", "Read and write daily and monthly notes."),
        "garden": ("continuity:garden_group", "Read and write the private documents of a persona."),
        "continuity": ("continuity:continuity_group", "Show the state of a conversation, and export or import it."),
        "subjects": ("continuity:subjects_group", "List the people and agents in the space."),
        "evolve": ("agents.evaluation:evolve_group", "Try proposed changes on a copy, and submit them."),
    },
    "Correct and erase": {
        "correct": ("memories:correct_command", "Replace the content of a fact or message; its history is preserved."),
        "forget": ("memories:forget_command", "Hide memories from recall; --undo restores them."),
        "erase": ("memories:erase_command", "Erase memories physically. This cannot be undone."),
        "erasures": ("erasures:erasures_group", "Record erasures in a file, and re-apply them to a restored copy."),
    },
    "Maintenance": {
        "maintain": ("maintenance:maintain_command", "Run maintenance now: facts, summary, notes, skills."),
        "compact": ("maintenance:compact_command", "Shorten the journal by merging runs of emptied entries."),
        "jobs": ("maintenance:jobs_commands", "List and run deferred jobs."),
        "model": ("embedding:model_group", "Add, list, remove and switch embedding models."),
    },
    "Inspect and verify": {
        "spaces": ("checks.inspection:spaces_command", "List the spaces of the store."),
        "inspect": ("checks.inspection:inspect_command", "Show what the space contains; --check reads every byte."),
        "doctor": ("checks.doctor:doctor_command", "Show the configuration, and check the store."),
        "verify": (
            "checks.verification:verify_command",
            "Compare the store with recorded journal heads to detect tampering or rollback.",
        ),
        "transcript": ("memories:transcript_group", "Show a conversation through a view; archive or delete its text."),
        "replay": (
            "agents.evaluation:replay_command",
            "Show the turns of a conversation, or replay fixtures on stores.",
        ),
        "evaluate": ("agents.evaluation:evaluate_group", "Measure the quality of memory against required rates."),
    },
    "Export, backup and migration": {
        "export": ("archive:export_command", "Write the space to an archive file."),
        "restore": ("archive:restore_command", "Restore a backup as the store, or an archive into a space."),
        "backup": ("archive:backup_command", "Copy the whole store to a file while it is in use."),
        "migrate": ("archive:migrate_command", "Copy every space into another store."),
    },
    "Serve and connect": {
        "install": ("agents.install:install_command", "Connect the coding assistants on this machine to the memory."),
        "uninstall": ("agents.install:uninstall_command", "Remove what `elytron install` wrote."),
        "serve": ("servers.serve:serve_command", "Serve the store over HTTP."),
        "console": ("servers.console:console_command", "Open the store in a browser: browse, search, correct, erase."),
        "proxy": ("servers.proxy:proxy_command", "Serve a model server's API with memory added."),
        "server": ("servers.shutdown:server_group", "Stop a server that runs on this machine."),
        "mcp": ("servers.mcp:mcp_group", "Serve the space to an MCP host, or print the host's configuration."),
        "hooks": ("agents.hooks:hooks_group", "Recall and store automatically through a coding agent's hooks."),
        "repo": ("agents.repo:repo_group", "Show and change which project's memory a folder has."),
        "stats": ("agents.stats:stats_command", "Show what hooks recalled and stored in each repository."),
        "sessions": ("agents.sessions:sessions_group", "Import sessions that coding assistants left on disk."),
        "rules": ("agents.hooks:rules_group", "Export rules that tell coding agents how to use this memory."),
        "integrations": ("agents.integrations:integrations_command", "List the adapters of agent frameworks."),
        "client": ("servers.client:client_group", "Call any operation of a memory server by name."),
        "gateway": ("servers.gateway:gateway_group", "Call a Memory Gateway: memories, resources, searches."),
        "access": ("servers.access:access_group", "Create, rotate and revoke the access keys of a server."),
        "platform": ("checks.inspection:platform_commands", "Show the capabilities of a profile or of this store."),
    },
    "Setup": {
        "demo": ("agents.demo:demo_group", "Try Elytron on a sample conversation; needs no key and no model."),
        "config": ("config:config_group", "Show each setting and its origin."),
        "keys": ("servers.access:keys_group", "Create and rotate the keys of sealed stores."),
        "secret": ("servers.secret:secret_group", "Seal a space with its user's words or passphrase."),
        "completion": ("config:completion_command", "Print a completion script for a shell."),
        "version": ("version:version_command", "Print the version."),
    },
}
"""Each command's module and function, and its line in the help."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("--store", "URL", "Path or URL of the store."),
    ("--space", "NAME", "Memory space, one per user or subject; --owner is an alias."),
    ("--agent", "NAME", "Name of the agent."),
    ("--channel", "NAME", "Channel of the conversation."),
    ("--chat", "NAME", "Chat that the conversation belongs to."),
    ("--profile", "NAME", "Host profile, which sets the limits."),
    ("--key-file", "PATH", "Key file of a sealed store."),
    ("--embedder", "NAME", "Embedding model."),
    ("--language-model", "MODEL", "Language model for maintenance: openai:gpt-5, ollama:llama3.2, ..."),
    ("--agent-skill-dirs", "PATHS", f"Directories of agent skills, separated by {os.pathsep!r}."),
)
"""The options of every command that name something: name, what for, and what is said of it."""
ALIASES = {"--space": ("--owner",)}
"""Other spellings of an option."""
PER_REPOSITORY = "--per-repository"
FLAGS = (
    ("--json / --no-json", "Print reports as JSON. [default: JSON unless at a terminal]"),
    (PER_REPOSITORY, "Use the space of the repository of this folder; --space applies outside of repositories."),
    ("--version", "Show the version and exit."),
    ("-h, --help", "Show this message and exit."),
)
ABOUT = (
    "Governed memory for AI agents: store what was said, recall it, show it to models, and erase it for good.",
    "Options may come before or after the command. Without --store, a database in your data folder is used.",
    "To try it without any setup, run `elytron demo`.",
)
_WIDTH = 80
_NAME_WIDTH = 28


def command_page() -> str:
    """Return the help of the whole command."""
    lines = ["Usage: elytron [OPTIONS] COMMAND [ARGS]...", ""]
    for text in ABOUT:
        lines += [*wrap_text(text, 2), ""]
    for group, commands in GROUPS.items():
        lines += [
            f"{group}:",
            *(line for name, (_, help_text) in commands.items() for line in table_rows(name, help_text, 14)),
            "",
        ]
    options = [*((f"{name} {what}", help_text) for name, what, help_text in OPTIONS), *FLAGS]
    lines += ["Options:", *(line for name, help_text in options for line in table_rows(name, help_text, _NAME_WIDTH))]
    return "\n".join(lines)


def table_rows(name: str, help_text: str, indent: int, /) -> list[str]:
    """Return the lines of a table's row; a name that is too long for its column has a line of its own."""
    first_line, *remaining_lines = wrap_text(help_text, indent)
    if len(name) + 3 > indent:
        return [f"  {name}", first_line, *remaining_lines]
    return [f"  {name}".ljust(indent) + first_line.lstrip(), *remaining_lines]


def wrap_text(text: str, indent: int, /) -> list[str]:
    """Return `text` in lines of the page's width, indented by `indent` spaces."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + indent >= _WIDTH - 1:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return [" " * indent + line for line in lines]


Page = tuple[str, str]
"""A command's words, joined by spaces, and its page."""
PARTING = "\f"
"""Separator of two pages in a stored file."""
FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "help")  # noqa: PTH118, PTH120 - pathlib takes long to load
"""Folder of the stored pages, a file per command."""
_COMMON = frozenset(name for name, _, _ in OPTIONS) | {PER_REPOSITORY, "--json", "--help"}
_SPELT = ", ".join("/".join((name, *ALIASES.get(name, ()))) for name, _, _ in OPTIONS)
_EVERYWHERE = f"Options of every command (see `elytron --help`): {_SPELT}, {PER_REPOSITORY}, --json."
_OWN_LEFT = 26


def kept_page(words: Sequence[str], /) -> str | None:
    """Return the stored page of the command that `words` name, None if there is none."""
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
    option_rows = [record for one in command.get_params(context) if (record := option_record(one, context)) is not None]
    sections = {"Commands": list(_listed_subcommands(command, context)), "Options": option_rows}
    for title, entries in sections.items():
        if entries:
            lines += [
                f"{title}:",
                *(line for name, help_text in entries for line in table_rows(name, help_text, _OWN_LEFT)),
                "",
            ]
    if any("--store" in one.opts for one in command.get_params(context)):
        lines += wrap_text(_EVERYWHERE, 0)
    return "\n".join(lines).rstrip()


def option_record(parameter: "click.Parameter", context: "click.Context", /) -> tuple[str, str] | None:
    """Return the spelling and the help of an option; None for arguments, hidden options and those of every command."""
    if not _COMMON.isdisjoint(parameter.opts):
        return None
    record = parameter.get_help_record(context)
    if record is None or not record[1]:
        return None
    return record[0], f"{record[1]} [repeatable]" if getattr(parameter, "multiple", False) else record[1]


def _listed_subcommands(command: "click.Command", context: "click.Context") -> Iterator[tuple[str, str]]:
    import click

    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            if subcommand is not None and not subcommand.hidden:
                yield name, subcommand.get_short_help_str(limit=200)


def _parted_pages(text: str) -> Iterator[Page]:
    for page in text.split(PARTING):
        command_words, _, body = page.partition("\n")
        yield command_words, body.rstrip("\n")
