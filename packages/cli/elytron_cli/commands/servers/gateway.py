"""The Memory Gateway's own command line: JSON on stdout, `{"error": text}` on stderr, flags before the command."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from elytron_cli.input.options import PageGroup, common_options, yes_option
from elytron_cli.main import use_utf8
from elytron_cli.terminal.output import QuestionDeclined, confirm_question, json_text
from elytron_core.errors import ElytronError, InvalidInput, UnreadableFile
from elytron_gateway import limits as gateway_limits

if TYPE_CHECKING:
    from elytron_gateway.client import SyncMemoryGatewayClient

Body = TypeVar("Body", bound=Callable[..., Any])
SCOPES = ("current_chat", "resources", "all_user_memory")
FAILED = 1
MISUSED = 2


class GatewayGroup(PageGroup):
    """Commands whose failures are one JSON object on stderr."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the flags before the command; print errors in them, and exit with 2."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.ClickException as error:
            print(json.dumps({"error": error.format_message()}), file=sys.stderr)
            raise click.exceptions.Exit(MISUSED) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print errors, and exit with 1 for a refusal and 2 for a wrong call."""
        try:
            return super().invoke(ctx)
        except ElytronError as error:
            _fail_call(ctx, error.message, FAILED)
        except click.ClickException as error:
            _fail_call(ctx, error.format_message(), MISUSED)


def _fail_call(context: click.Context, reason: str, code: int) -> None:
    print(json.dumps({"error": reason}), file=sys.stderr)
    context.exit(code)


def run_gateway() -> None:
    """Run the command line as `memory-gateway` and end the process with its exit code."""
    use_utf8()
    try:
        sys.exit(gateway_group.main(prog_name="memory-gateway", standalone_mode=False) or 0)
    except click.ClickException as error:
        print(json.dumps({"error": error.format_message()}), file=sys.stderr)
        sys.exit(MISUSED)
    except QuestionDeclined:
        print(json.dumps({"error": "nothing was changed"}), file=sys.stderr)
        sys.exit(FAILED)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)


@click.group("gateway", cls=GatewayGroup)
@click.option(
    "--base-url",
    envvar="MEMORY_GATEWAY_BASE_URL",
    default="http://127.0.0.1:8010",
    show_default=True,
    help="Address of the gateway.",
)
@click.option("--user-id", envvar="MEMORY_GATEWAY_USER_ID", default="", help="Name of the user.")
@click.option(
    "--user-key", envvar="MEMORY_GATEWAY_USER_KEY", default="", help="Key of the user; preferably set in the variable."
)
@click.option(
    "--provisioning-key",
    envvar="MEMORY_GATEWAY_PROVISIONING_KEY",
    default="",
    help="Key of an operator.",
)
@click.option(
    "--timeout",
    envvar="MEMORY_GATEWAY_TIMEOUT_SECONDS",
    type=float,
    default=gateway_limits.TIMEOUT_S,
    show_default=True,
    help="Timeout in seconds.",
)
@click.option("--proxy", envvar="MEMORY_GATEWAY_PROXY", metavar="URL", help="HTTP proxy, instead of the environment's.")
@common_options
@click.pass_context
def gateway_group(
    context: click.Context,
    *,
    base_url: str,
    user_id: str,
    user_key: str,
    provisioning_key: str,
    timeout: float,
    proxy: str | None,
) -> None:
    """Call a Memory Gateway: memories, resources and searches of one user, and operator commands.

    Options go before the command, and default to the MEMORY_GATEWAY_ variables. The commands for users and their keys,
    and drain, require an operator's key.
    """
    from elytron_gateway.client import SyncMemoryGatewayClient

    context.obj = context.with_resource(
        SyncMemoryGatewayClient(
            base_url,
            user_id=user_id,
            user_key=user_key,
            provisioning_key=provisioning_key,
            timeout_s=timeout,
            proxy=proxy,
        )
    )


def _placed_options(body: Body) -> Body:
    """Add the options for app and project to a command."""
    for name in ("project", "app"):
        body = click.option(f"--{name}-id", default="default", show_default=True, help=f"Name of the {name}.")(body)
    return body


def _gateway_command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    return gateway_group.command(name)


_ABOUT = (
    click.option("--title", default="", help="Title in lists and search results."),
    click.option("--description", default="", help="Description of the resource."),
    _placed_options,
)
_USER = click.argument("user_id")
_SESSION = click.option("--session-id", required=True, help="Session of the memory, from a search result.")
_CALLS: tuple[tuple[str, str, str, tuple[Callable[[Any], Any], ...]], ...] = (
    ("health", "health", "Check whether the gateway answers; needs no credentials.", ()),
    (
        "create-user",
        "create_user",
        "Create a user and print the key; an existing user's key is shown only if it can be derived.",
        (_USER,),
    ),
    (
        "upload-resource",
        "upload_resource",
        "Upload a file and make its text searchable.",
        (click.argument("path", type=click.Path(path_type=Path)), *_ABOUT),
    ),
    (
        "register-resource",
        "register_resource",
        "Register a resource at an address that the server may read.",
        (click.argument("uri"), *_ABOUT),
    ),
    ("list-resources", "list_resources", "List the resources.", (_placed_options,)),
    ("get-resource", "get_resource", "Show a resource if it exists.", (click.argument("resource_id"), _placed_options)),
    (
        "flush-memory",
        "flush",
        "Extract memories from what was added to a session.",
        (click.option("--session-id", required=True, help="Session, for example chat:c_456."), _placed_options),
    ),
    (
        "override-memory",
        "override",
        "Override the text that search shows for a memory.",
        (
            click.argument("memory_id"),
            _SESSION,
            click.option("--text", required=True, help="Text to show in search results."),
            _placed_options,
        ),
    ),
    (
        "undo-memory",
        "undo",
        "Remove the override or tombstone of a memory.",
        (
            click.argument("memory_id"),
            click.option("--session-id", required=True, help="Session of the memory."),
            _placed_options,
        ),
    ),
    ("list-edits", "edits", "List the overrides and tombstones.", (_placed_options,)),
    ("list-users", "list_users", "List all users.", ()),
    ("usage", "usage", "Show how much a user stores.", (_USER,)),
    ("rotate-key", "rotate_key", "Replace a user's key; the old key is revoked, the memory is preserved.", (_USER,)),
    ("revoke-key", "revoke_key", "Revoke a user's key; the memory is preserved.", (_USER,)),
    ("drain", "drain_backlog", "Send pending changes to an upstream that is reachable again.", ()),
)
"""Commands that make one call of the client and print its answer: name, call, help, arguments and options."""


_SUBJECTS = ("user_id", "path", "uri", "resource_id", "memory_id", "session_id")
"""Fields that a call is about: the first existing one is a positional argument."""


def _call_command(name: str, call: str, help_text: str, options: Sequence[Callable[[Any], Any]]) -> None:
    def perform(client: "SyncMemoryGatewayClient", **arguments: Any) -> None:
        subject_id = next((arguments.pop(field) for field in _SUBJECTS if field in arguments), None)
        print(json_text(getattr(client, call)(*(() if subject_id is None else (subject_id,)), **arguments)))

    body: Any = click.pass_obj(perform)
    for option in reversed(options):
        body = option(body)
    gateway_group.command(name, help=help_text)(body)


for _call in _CALLS:
    _call_command(*_call)


@_gateway_command("delete-resource")
@click.argument("resource_id")
@yes_option
@_placed_options
@click.pass_obj
def delete_resource(client: "SyncMemoryGatewayClient", *, resource_id: str, yes: bool, **place: str) -> None:
    """Delete a resource permanently."""
    confirm_question(f"Remove the resource {resource_id!r}? This cannot be undone.", yes=yes)
    print(json_text(client.delete_resource(resource_id, **place)))


@_gateway_command("search")
@click.argument("query")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="Scope of the search.")
@click.option("--conversation-id", help="Conversation that current_chat refers to.")
@click.option(
    "--top-k",
    type=click.IntRange(1, gateway_limits.TOP_K),
    default=gateway_limits.TOP_K_DEFAULT,
    help="Maximum number of results.",
)
@_placed_options
@click.pass_obj
def search_command(
    client: "SyncMemoryGatewayClient",
    *,
    query: str,
    scopes: tuple[Any, ...],
    conversation_id: str | None,
    top_k: int,
    **place: str,
) -> None:
    """Search memories: by default all, or with --conversation-id that chat and the resources."""
    if "current_chat" in scopes and conversation_id is None:
        raise click.UsageError("--scope current_chat requires --conversation-id")
    answer = client.search(query, scope=scopes, conversation_id=conversation_id, top_k=top_k, raw=True, **place)
    print(json_text(answer))


@_gateway_command("add-memory")
@click.option("--session-id", required=True, help="Session, for example chat:c_456.")
@click.option("--messages", required=True, help="JSON array of messages, or the path of a file that contains one.")
@click.option("--external-content-used", is_flag=True, help="Mark the messages as based on a web page or file.")
@_placed_options
@click.pass_obj
def add_memory(
    client: "SyncMemoryGatewayClient",
    *,
    session_id: str,
    messages: str,
    external_content_used: bool,
    app_id: str,
    project_id: str,
) -> None:
    """Add messages to a session."""
    added_report = client.add(
        session_id,
        _given_messages(messages),
        app_id=app_id,
        project_id=project_id,
        external_content_used=external_content_used,
    )
    print(json_text(added_report))


@_gateway_command("delete-memory")
@click.argument("memory_id")
@click.option("--session-id", required=True, help="Session of the memory, from a search result.")
@click.option("--reason", default="", help="Reason, recorded in the list of edits.")
@click.option("--purge", is_flag=True, help="Erase the memory permanently.")
@yes_option
@_placed_options
@click.pass_obj
def delete_memory(client: "SyncMemoryGatewayClient", *, memory_id: str, purge: bool, yes: bool, **about: str) -> None:
    """Hide a memory from search, or erase it with --purge."""
    if purge:
        confirm_question(f"Erase the memory {memory_id!r}? This cannot be undone.", yes=yes)
    print(json_text(client.delete(memory_id, purge=purge, **about)))


@_gateway_command("erase-user")
@click.argument("user_id")
@click.option("--confirm", metavar="USER_ID", required=True, help="User name again, as confirmation.")
@click.pass_obj
def erase_user(client: "SyncMemoryGatewayClient", *, user_id: str, confirm: str) -> None:
    """Erase a user with all data, and print the signed report."""
    if confirm != user_id:
        raise click.UsageError("--confirm does not match the user")
    print(json_text(client.erase_user(user_id)))


@_gateway_command("check-report")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--public-key", metavar="HEX", required=True, help="Public key of the gateway, from a trusted report.")
def check_report(*, path: Path, public_key: str) -> None:
    """Verify offline that the gateway with this key signed the report of an erased user."""
    from elytron_gateway.users import SignedReport, is_genuine

    signed_report = SignedReport.from_bytes(_read_file(path, "a signed report").encode())
    if not is_genuine(signed_report, public_key):
        raise InvalidInput(field="the report", problem="was not signed with this key")
    print(json_text(signed_report.report))


def _given_messages(argument: str) -> list[dict[str, Any]]:
    """Return the messages in `argument`, or in the file that it names."""
    from elytron_core.strict_json import parse_json

    text = argument
    if not argument.lstrip().startswith(("[", "{")):
        text = _read_file(Path(argument), "a file of messages")
    messages = parse_json(text.encode("utf-8", "surrogatepass"))
    if not isinstance(messages, list) or not all(isinstance(item, dict) for item in messages):
        raise InvalidInput(field="--messages", problem="is not a JSON array of messages")
    return [item for item in messages if isinstance(item, dict)]


def _read_file(path: Path, kind: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(name=path.name or str(path), problem=f"cannot be read as {kind}") from None
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name or str(path), error) from None
