"""A runtime opened for one command. Its operations go through the dispatcher, as a server's do."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

import elytron
from elytron.indexing.checkpoints import Progress
from elytron.registry import by_request
from elytron.runtime import MemoryRuntime
from elytron.secrets.forms import SecretState
from elytron.state.losses import losses_of
from elytron_adapter.dispatch import OperationDispatcher
from elytron_adapter.envelope import (
    AcceptedAnswer,
    AuthKind,
    CallAuth,
    CallSource,
    CallTransport,
    DuplicatedAnswer,
    Envelope,
    QueuedAnswer,
    RejectedAnswer,
    SourceKind,
)
from elytron_cli.config import FILE, SECRET_VARIABLES, FoundSetting, RunSettings, default_store, resolve_settings
from elytron_cli.input.options import as_json, global_options
from elytron_cli.input.values import valid_value
from elytron_cli.terminal.help_page import PER_REPOSITORY
from elytron_cli.terminal.output import CommandOutput, OperationRefused, ProgressBar
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest
from elytron_core.errors import (
    ElytronError,
    KeyDestroyed,
    SpaceIncomplete,
    SpaceLocked,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
    StoreUrlInvalid,
)
from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.model import OperationRequest, Value
from elytron_core.ports.models import Embedder, LanguageModel
from elytron_core.ports.store import KeyProvider
from elytron_core.scope import Scope
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from rich.console import Console

    from elytron_models import ModelClient


ReportT = TypeVar("ReportT", bound=Value)

_OPERATOR = CallSource(kind=SourceKind.OPERATOR)
_LOCAL = CallAuth(authenticated=True, kind=AuthKind.LOCAL)


class CommandSession:
    """Calls operations of one open runtime."""

    def __init__(self, runtime: MemoryRuntime, /) -> None:
        self._dispatcher = OperationDispatcher(runtime)
        self._ids = runtime.context.ids

    @property
    def runtime(self) -> MemoryRuntime:
        """Return the runtime that answers."""
        return self._dispatcher.runtime

    @property
    def scope(self) -> Scope | None:
        """Return the default scope of requests."""
        return self._dispatcher.runtime.scope

    async def call(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Return the report of the operation that takes `request`. Raises OperationRefused."""
        operation = by_request(request)
        envelope = Envelope(
            request_id=self._ids.new(),
            transport=CallTransport.CLI,
            operation=operation.name,
            source=_OPERATOR,
            auth=_LOCAL,
            payload=request,
        )
        match await self._dispatcher.dispatch(envelope):
            case AcceptedAnswer(report=outcome) | DuplicatedAnswer(report=outcome) | QueuedAnswer(report=outcome):
                assert isinstance(outcome, operation.report)
                return outcome
            case RejectedAnswer() as rejection:
                raise OperationRefused(rejection)

    async def write(self, request: MemoryWriteRequest, /) -> MemoryWriteReport:
        """Commit the request, as a runtime does. Raises OperationRefused."""
        return await self.call(request)


@asynccontextmanager
async def open_session(
    settings: RunSettings,
    /,
    *,
    embedder: Embedder | None = None,
    when_missing: WhenMissing = WhenMissing.REFUSE,
    progress: Progress | None = None,
    projection_events: bool = False,
    loads_search: bool = True,
) -> AsyncGenerator[CommandSession]:
    """Open the store of `settings` and close it afterwards.

    Only a command that writes makes a store: a mistyped path elsewhere raises StoreMissing and leaves nothing behind.
    The user's default store gets its folder when it is made. An embedder that is `embedder` replaces the one of the
    settings, which serves until then. `progress` is called while an index is built. With `projection_events`, each
    projection leaves an entry in the journal. Without `loads_search` the first search loads what searching needs.
    """
    if when_missing is WhenMissing.MAKE and settings.store.value == str(default_store()):
        _make_folder(default_store().parent)
    scope: Scope = valid_value(Scope, **scope_fields(settings))
    skill_dirs = skill_dirs_of(settings)
    default_embedder = embedder_of(settings)
    client = model_of(settings)
    opening_runtime = elytron.open(
        settings.store.value,
        scope=scope,
        keys=keys_of(settings),
        api_key=settings.api_key.value if settings.api_key is not None else None,
        credential_secret=settings.gateway_secret.value if settings.gateway_secret is not None else None,
        embedder=embedder or default_embedder,
        former_embedder=default_embedder if embedder is not None else None,
        agent_skill_dirs=skill_dirs,
        profile=settings.profile.value if settings.profile is not None else None,
        language_model=text_model_of(client),
        when_missing=when_missing,
        progress=progress,
        projection_events=projection_events,
    )
    opening_runtime.loads_search = loads_search
    try:
        async with opening_runtime as runtime:
            await _unlock_space(runtime, settings)
            yield CommandSession(runtime)
    finally:
        if client is not None:
            await client.close()


async def _unlock_space(runtime: MemoryRuntime, settings: RunSettings) -> None:
    """Open the space with the secret in the settings, if it is under one. Raises SecretRefused, WordsInvalid."""
    if settings.space_secret is None:
        return
    without_core_dumps()
    space, secret = settings.space.value, settings.space_secret.value
    status = await runtime.secrets.status(space)
    if status.kind and status.state is not SecretState.MAKING:
        is_word_secret = status.kind == "words"
        words, passphrase = (secret, None) if is_word_secret else (None, secret)
        await runtime.secrets.unlock(space, words=words, passphrase=passphrase)


def require_own_store(settings: RunSettings, /) -> None:
    """Raise StoreUrlInvalid if the store is another server's, which only shares its callers' own spaces."""
    from elytron_store import parse_url

    if parse_url(settings.store.value).engine == "gateway":
        raise StoreUrlInvalid(
            problem="is shared by a server, which owns its access keys: run this on the server's machine, on the store"
            " itself, or let that server do it (`serve --llm-upstream`, `elytron access` there)"
        )


def scope_fields(settings: RunSettings, /) -> dict[str, str | None]:
    """Return the fields of the scope that the settings name."""
    place_settings = {
        "space": settings.space,
        "agent": settings.agent,
        "channel": settings.channel,
        "chat": settings.chat,
    }
    return {name: setting.value for name, setting in place_settings.items() if setting is not None}


def embedder_of(settings: RunSettings, /) -> Embedder | None:
    """Return the embedder that the settings name, or None. Raises NotFound, UnreadableFile, InvalidInput."""
    if settings.embedder is None:
        return None
    from elytron.embedding.embedders import embedder_of as named

    key = settings.embedder_key
    return named(settings.embedder.value, key=key.value if key is not None else None)


def model_of(settings: RunSettings, /) -> "ModelClient | None":
    """Return the language model in the settings, or None; nothing is sent to it yet.

    Raises InvalidInput, MissingExtra.
    """
    if settings.language_model is None:
        return None
    from elytron_models import ModelClient, address_of, key_of

    address = address_of(settings.language_model.value, field="--language-model")
    return ModelClient(address, key=key_of(address, os.environ))


def text_model_of(client: "ModelClient | None", /) -> LanguageModel | None:
    """Return the model at `client` in the form for maintenance."""
    if client is None:
        return None
    from elytron_models import TextModel

    return TextModel(client)


def keys_of(settings: RunSettings, /) -> KeyProvider | None:
    """Return the keys that the settings name, or None. Raises KeyMissing, PermissionRefused, InvalidInput."""
    if settings.key_file is not None or settings.keys is not None:
        without_core_dumps()
    if settings.key_file is not None:
        from elytron_store.sealed.providers import FileKeys

        return FileKeys(settings.key_file.value)
    if settings.keys is not None:
        from elytron_store.sealed.providers import EnvironmentKeys

        return EnvironmentKeys.from_text(settings.keys.value)
    return None


def without_core_dumps() -> None:
    """Prevent core dumps of this process, which would write keys and content to a disk."""
    try:
        import resource
    except ImportError:  # Windows writes none by itself
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def skill_dirs_of(settings: RunSettings, /) -> tuple[str, ...]:
    """Return the directories of agent skills that the settings name."""
    setting = settings.agent_skill_dirs
    return tuple(path for path in setting.value.split(os.pathsep) if path) if setting is not None else ()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"cannot create the folder of the default store: {error.strerror}; pass --store"
        ) from error


SPACES_NAMED = 5
_RESOLVED = "elytron.resolved"


def run_settings(place: Path | None = None) -> RunSettings:
    """Return the settings of this run; with `--per-repository`, the space is that of `place`, else of this folder."""
    context = click.get_current_context()
    resolved_settings = context.meta.get(_RESOLVED)
    if isinstance(resolved_settings, RunSettings):
        return resolved_settings
    settings = stated_settings()
    if settings.is_per_repository:
        space = asyncio.run(_project_space(settings, place))
        settings = context.meta[_RESOLVED] = replace(settings, space=FoundSetting(space, PER_REPOSITORY))
    return settings


def stated_settings(*, with_file: bool = True) -> RunSettings:
    """Return the settings of this run as stated: no store is opened to find a repository's space.

    Without the file, or with `--per-repository`, what a repository carries decides nothing. Nor does then the
    environment of a command that names its store, secrets apart: assistants pass on variables that a repository sets.
    """
    stated_options = global_options(click.get_current_context())
    with_file = with_file and not stated_options.get("per_repository")
    environment = dict(os.environ)
    if not with_file and "store" in stated_options:
        environment = {name: value for name, value in environment.items() if name in SECRET_VARIABLES}
    return resolve_settings(stated_options, environment=environment, folder=Path.cwd() if with_file else None)


def person_space(settings: RunSettings, /) -> str:
    """Return the space for all projects: the one that the user names, not a file in a project."""
    from elytron_assistants.project_registry import PERSON_SPACE

    return PERSON_SPACE if settings.space.origin in {"default", FILE} else settings.space.value


async def project_labels(session: CommandSession, /) -> dict[str, str]:
    """Return the labels of projects by their spaces; none if the registry is unreadable."""
    from elytron_assistants.project_registry import read_registry

    with suppress(ElytronError):
        return (await read_registry(session.runtime, person_space(stated_settings()))).labels
    return {}


async def _project_space(settings: RunSettings, project_folder: Path | None) -> str:
    from elytron_assistants.project_identity import session_folder
    from elytron_assistants.project_registry import note_project, project_memory

    folder = project_folder or session_folder(str(Path.cwd()), environment=os.environ)
    async with open_session(settings, when_missing=WhenMissing.PRETEND, loads_search=False) as session:
        home_place = await project_memory(session.runtime, folder, person=person_space(settings))
        if await session.runtime.context.spaces.find(SpaceId(home_place.spaces[0])) is not None:
            with suppress(StoreError):  # a read-only one has no label
                await note_project(session.runtime, home_place)
        return home_place.spaces[0]


def run_output() -> CommandOutput:
    """Return the output of this run."""
    return CommandOutput(as_json(click.get_current_context()))


def run_work(
    work: Callable[[CommandSession, CommandOutput], Awaitable[int | None]],
    /,
    *,
    when_missing: WhenMissing = WhenMissing.REFUSE,
    hints: bool = True,
    progress: str | None = None,
) -> int | None:
    """Open the store, run `work`, close; return its exit code. Raises StoreMissing.

    A command that only reads gives a hint if its space is empty and the store has others. `progress` is the text of a
    bar that is shown at once; without it one is shown if an index is built.
    """
    settings, output = run_settings(), run_output()

    async def whole() -> int | None:
        progress_label = progress or "indexing"
        with ProgressBar(
            progress_label, unit="entries", is_visible=not output.is_json, unasked=progress is None
        ) as bar:
            async with open_session(
                settings, when_missing=when_missing, progress=bar.at, loads_search=False
            ) as session:
                session.runtime.context.entries.add("cli")
                # Checked before the work, which may write, and shown after its output.
                hint = await _other_spaces(session) if hints and when_missing is WhenMissing.REFUSE else None
                code = await work(session, output)
                if hint is not None:
                    output.hint(hint)
                return code

    return asyncio.run(whole())


def answer_request(
    request: OperationRequest[ReportT],
    show: Callable[["Console", ReportT], None],
    /,
    *,
    code: Callable[[ReportT], int | None] | None = None,
    when_missing: WhenMissing = WhenMissing.REFUSE,
) -> int | None:
    """Perform `request` and print its report, with `show` at a terminal; return its exit code by `code`.

    Raises StoreMissing.
    """

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        report = await session.call(request)
        out.report(report, show)
        return code(report) if code is not None else None

    return run_work(work, when_missing=when_missing)


def scope_of(conversation: str | None, /) -> Scope:
    """Return the scope of this run, in the named conversation."""
    conversation_fields = {"conversation": conversation, "chat": None} if conversation is not None else {}
    return valid_value(Scope, **(scope_fields(run_settings()) | conversation_fields))


def storing_missing(*, dry_run: bool) -> WhenMissing:
    """Return how a writing command opens a missing store: it creates one, and a dry run only simulates that."""
    return WhenMissing.PRETEND if dry_run else WhenMissing.MAKE


async def _other_spaces(session: CommandSession) -> str | None:
    """Return a hint that names a few other spaces if the session's own was never written to."""
    context = session.runtime.context
    try:
        if session.scope is None or await context.spaces.find(session.scope.space) is not None:
            return None
    except (StoreCorrupt, SpaceLocked, SpaceIncomplete, KeyDestroyed):
        return None  # the command says so itself, or need not read it
    # One more for the space of the system, and one that shows whether there are others.
    spaces = [space for space in await context.store.spaces(limit=SPACES_NAMED + 2) if space != SYSTEM_SPACE]
    if not spaces:
        return None
    space = session.scope.space
    if losses_of(space, await context.losses.read(is_logged=False)) or await context.store.journal(
        space, after=0, limit=1
    ):
        return None  # it was not empty: damage removed its content
    names = ", ".join(repr(space) for space in spaces[:SPACES_NAMED])
    more_note = " and others (`elytron spaces`)" if len(spaces) > SPACES_NAMED else ""
    return f"the space {space!r} is empty; this store has {names}{more_note}: choose one with --space"
