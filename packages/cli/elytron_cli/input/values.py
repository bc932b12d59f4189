"""Input values of commands: from files, from standard input, and from filter options."""

import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from elytron_adapter.envelope import decode_as
from elytron_cli.input.options import Body, OneOf, time_option
from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallFilters
from elytron_core.contracts.transcript import RuntimeSkillWrite
from elytron_core.errors import InvalidInput, InvalidJson, PayloadTooLarge, UnreadableFile
from elytron_core.evidence import TrustLevel
from elytron_core.model import Value, invalid_input
from elytron_core.policy.skills import SkillFile, read_skill_file
from elytron_core.profiles import ProfileName
from elytron_core.strict_json import canonical_bytes
from elytron_store import private_files

ValueT = TypeVar("ValueT", bound=Value)

STANDARD_INPUT = Path("-")


@contextmanager
def as_file(path: Path, /) -> Generator[Path]:
    """Yield `path`; for "-" a temporary file with all of standard input.

    Raises UnreadableFile.
    """
    if path != STANDARD_INPUT:
        yield path
        return
    with TemporaryDirectory(prefix="elytron-") as folder:
        input_file = Path(folder, "stdin")
        try:
            with open(input_file, "wb", opener=private_files.private_opener) as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        except OSError as error:
            raise UnreadableFile(name=str(path), problem=f"cannot be read: {error.strerror}") from error
        yield input_file


def standard_input(limit: int, /) -> bytes:
    """Return all of standard input. Raises PayloadTooLarge for more than `limit` bytes."""
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise PayloadTooLarge(limit=limit, what="standard input", way_out="split it into parts")
    return data


def spoken_text(text: str, /) -> str:
    """Return a message's text: `text`, or for "-" standard input. Raises PayloadTooLarge."""
    if text != "-":
        return text
    try:
        return standard_input(limits.MESSAGE_CHARS * 4).decode("utf-8").strip()
    except UnicodeDecodeError:
        raise click.UsageError("standard input is not UTF-8") from None


def read_bytes(path: Path, /, *, limit: int = limits.JSON_BYTES) -> bytes:
    """Return the content of a file of at most `limit` bytes. Raises UnreadableFile."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from error
    if len(data) > limit:
        raise UnreadableFile(name=path.name, problem=f"is larger than {limit} bytes")
    return data


def read_file(path: Path, /, *, limit: int = limits.JSON_BYTES) -> str:
    """Return the text of a file of at most `limit` bytes. Raises UnreadableFile."""
    data = read_bytes(path, limit=limit)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableFile(name=path.name, problem="is not UTF-8") from None


def read_value(kind: type[ValueT], path: Path, /) -> ValueT:
    """Return the `kind` in a JSON file. Raises UnreadableFile."""
    try:
        return decode_as(kind, read_file(path).encode("utf-8"))
    except UnreadableFile:
        raise
    except InvalidInput as error:
        raise UnreadableFile(name=path.name, problem=f"is not valid: {error.message}") from None


def require_free(path: Path, /, *, force: bool) -> None:
    """Raise InvalidInput if something is at `path` and `force` is false."""
    # Checked with `os`, which also answers for an invalid file name.
    if not force and os.path.lexists(path):
        raise InvalidInput(field=path.name, problem="already exists: name a new file, or replace it with --force")


def write_file(path: Path, text: str, /, *, force: bool) -> None:
    """Write `text` to a new file, or with `force` replace an existing one. Raises InvalidInput."""
    require_free(path, force=force)
    try:
        with open(path, "w" if force else "x", encoding="utf-8", opener=private_files.private_opener) as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput(field=path.name, problem=f"cannot be written: {error.strerror}") from error


def replace_file(path: Path, data: bytes, /) -> None:
    """Write `data` to a file that only its owner may read, replacing an existing one. Raises InvalidInput."""
    try:
        private_files.replace_file(path, data)
    except (OSError, ValueError) as error:
        raise InvalidInput(field=path.name, problem="cannot be written: name a file in your own folder") from error


ValueTValues = TypeVar("ValueTValues", bound=Value)


def valid_value(kind: type[ValueTValues], /, **fields: object) -> ValueTValues:
    """Return the value of `fields`. Raises InvalidInput, as requests themselves do."""
    try:
        return kind(**fields)
    except ValidationError as error:
        raise invalid_input(error, model=kind) from None


def skill_writes(name: str, text: str, /) -> Iterator[RuntimeSkillWrite]:
    """Yield the procedures in the file `name` with this text. Raises UnreadableFile, InvalidInput."""
    document = read_skill_file(text)
    if document is not None:
        yield _from_markdown(name, document)
    elif text.lstrip().startswith(("[", "{")):
        yield from _from_json(name, text)
    else:
        problem = "is neither Markdown with front matter (name, topic, title, summary) nor JSON"
        raise UnreadableFile(name=name, problem=problem)


def _from_markdown(name: str, document: SkillFile) -> RuntimeSkillWrite:
    fields = document.fields
    missing_fields = [field for field in ("name", "topic", "title") if not fields.get(field)]
    if missing_fields:
        way_out = "is not a runtime skill; a SKILL.md file is read in place: pass its folder to --agent-skill-dirs"
        raise UnreadableFile(name=name, problem=f"has no {missing_fields[0]} in its front matter and {way_out}")
    return valid_value(
        RuntimeSkillWrite,
        name=fields["name"],
        topic=fields["topic"],
        title=fields["title"],
        summary=fields.get("summary", ""),
        content=document.body.strip(),
        citations=tuple(fields.get("citations", "").split()),
    )


def _from_json(name: str, text: str) -> Iterator[RuntimeSkillWrite]:
    """Yield the objects of a JSON list, of one object, or of one object per line."""
    data = text.encode("utf-8")
    try:
        parsed_json = strict_json.parse_json(data)
    except InvalidJson:
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        yield from (decode_as(RuntimeSkillWrite, line) for line in lines)
        return
    items = parsed_json if isinstance(parsed_json, list) else [parsed_json]
    if not all(isinstance(item, dict) for item in items):
        raise UnreadableFile(name=name, problem="is not a list of objects")
    yield from (decode_as(RuntimeSkillWrite, canonical_bytes(item)) for item in items)


ResultT = TypeVar("ResultT")

_FILTERS = (
    click.option("--speaker", "speakers", multiple=True, metavar="NAME", help="Speaker of the messages."),
    click.option("--conversation", "conversations", multiple=True, metavar="NAME", help="Conversation to search."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of the memories."),
    time_option("--since", "Start of the period, in ISO 8601 or in words (yesterday, 2 hours ago), UTC."),
    time_option("--until", "End of the period, exclusive."),
    click.option("--trust", type=OneOf(TrustLevel), help="Minimum level of trust, by origin."),
)


def filter_options(body: Callable[..., ResultT]) -> Callable[..., ResultT]:
    """Give a command the options that filter what is read, as one argument `filters`."""

    @wraps(body)
    def call(
        *,
        speakers: tuple[str, ...],
        conversations: tuple[str, ...],
        tags: tuple[str, ...],
        since: Instant | None,
        until: Instant | None,
        trust: TrustLevel | None,
        **more: Any,
    ) -> ResultT:
        filters = valid_value(
            RecallFilters,
            speakers=speakers,
            conversations=conversations,
            tags_any=tags,
            since=since,
            until=until,
            trust=trust,
        )
        return body(filters=filters, **more)

    for option in reversed(_FILTERS):
        call = option(call)
    return call


class _ProfileChoice(OneOf[ProfileName]):
    """The name of a profile, also with the prefix `profile-` that some hosts use."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return the short name."""
        return super().normalize_choice(choice, ctx).removeprefix("profile-")


def profile_option(help_text: str, /) -> Callable[[Body], Body]:
    """Give a command its own `--profile`."""
    default_profile = ProfileName.SERVER_DEV_FULL.value
    return click.option(
        "--profile", type=_ProfileChoice(ProfileName), default=default_profile, show_default=True, help=help_text
    )
