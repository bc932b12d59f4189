"""Commands that inspect a whole space."""

import asyncio
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import click
from pydantic import Field

from elytron.journal.verification import VerifiedSpace, verify_store
from elytron.ops.inspection import shown_check
from elytron_adapter.envelope import EXIT_DAMAGE, RejectedAnswer, failure_of, reject_error
from elytron_assistants.wiring.probe import WiringCheck, check_wiring
from elytron_assistants.wiring.wiring_files import read_record
from elytron_cli.commands.config import ConfigItem
from elytron_cli.config import RunSettings, program_path
from elytron_cli.input.options import PageGroup, common_but_profile, common_options, page_command, page_options
from elytron_cli.input.values import profile_option, read_value, replace_file, valid_value
from elytron_cli.session import (
    CommandSession,
    answer_request,
    keys_of,
    open_session,
    project_labels,
    run_output,
    run_settings,
    run_work,
    scope_fields,
)
from elytron_cli.tables import common as tables_common
from elytron_cli.tables.common import show_pairs
from elytron_cli.terminal.output import CommandOutput, OperationRefused, safe_line
from elytron_core import limits
from elytron_core.clock import SystemClock
from elytron_core.contracts.inspection import (
    HEAD,
    CapabilityState,
    MemoryCapabilitiesRequest,
    MemoryCapabilityCatalog,
    MemoryInspectionReport,
    MemoryInspectionRequest,
    MemorySpacesReport,
    MemorySpacesRequest,
    StoreCheck,
)
from elytron_core.errors import (
    ElytronError,
    LimitExceeded,
    SealBroken,
    StoreBusy,
    StoreCorrupt,
    StoreForeign,
    StoreMissing,
    Unsupported,
)
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.policy.platform.capabilities import profile_snapshot
from elytron_core.ports.store_checks import CheckReport
from elytron_core.profiles import ProfileName, SpaceLoss, StoreCapabilities, count_text
from elytron_core.scope import Scope, Space
from elytron_core.strict_json import canonical_bytes
from elytron_store import WhenMissing, open_as_made, parse_url, rescue_store
from elytron_store.limits import BUSY_WAIT_S

if TYPE_CHECKING:
    from rich.console import Console

    from elytron.runtime import MemoryRuntime
    from elytron_core.ports.store import Store


@page_command("inspect")
@click.option("--check", is_flag=True, help="Read every byte of the store and report damage.")
@click.option("--repair", is_flag=True, help="Check the store and move damaged data aside; nothing is discarded.")
@click.option("--acknowledge", is_flag=True, help="Acknowledge what repairs lost of the space; it is reported no more.")
@click.option("--fingerprints", is_flag=True, help="Read the whole space for its fingerprints and its head.")
@click.option("--head", metavar="HEAD", help="Recorded head to compare with the journal of the space.")
@common_options
def inspect_command(
    *, check: bool, repair: bool, acknowledge: bool, fingerprints: bool, head: str | None
) -> int | None:
    """Show what the space contains.

    Exits with 13 if the check finds damage or unjournaled changes, or if the space does not match --head because an
    older state was restored. --repair leaves no damage, and records what it could not save. That loss is shown, and
    --check and --repair exit with 13, until it is acknowledged. A store that cannot be opened is checked and repaired
    too, as long as nothing else has it open: its intact content is restored, and the damaged file is saved next to it.
    """
    request = MemoryInspectionRequest(
        check=check or repair, repair=repair, acknowledge=acknowledge, fingerprints=fingerprints, head=head
    )
    standing: list[SpaceLoss] = []
    report, refused = _read_space(request, standing)
    rescued: CheckReport | None = None
    if refused is not None or (repair and not _is_repaired(report)):
        try:
            rescued = asyncio.run(_examine_store(refused, repair=repair))
        except StoreBusy as error:
            raise StoreBusy(
                engine=parse_url(run_settings().store.value).engine,
                waited_s=BUSY_WAIT_S,
                way_out="stop the server that has this store open, then retry",
            ) from error
        except (Unsupported, StoreForeign) as error:
            if refused is not None:
                raise (
                    error if isinstance(refused, StoreCorrupt) and isinstance(error, StoreForeign) else refused
                ) from None
    if rescued is not None and not repair:
        run_output().report(shown_check(rescued, _own_space(), repaired=False), tables_common.show_check)
        return EXIT_DAMAGE
    if rescued is not None:
        report = _read_rescued(request, rescued)
    assert report is not None
    # The catalog of capabilities has a separate command, and would be four fifths of the report.
    run_output().report(report.model_copy(update={"capabilities": None}), tables_common.show_inspection)
    if acknowledge:
        run_output().hint(_remaining_text(report, standing))
    return _check_code(report)


def _remaining_text(report: MemoryInspectionReport, losses: Sequence[SpaceLoss]) -> str:
    """Return the effect of an acknowledgement, and which spaces still have a loss."""
    names = sorted("a space that is not known" if loss.space is None else repr(loss.space) for loss in losses)
    others = f"; still recorded: {', '.join(names)}" if names else "; no space has one"
    if report.acknowledged:
        return f"acknowledged {count_text(report.acknowledged, 'loss', 'losses')}{others}"
    why = "a loss of an unknown space goes with the last of the others" if report.losses else ""
    return (
        f"nothing acknowledged: no loss is recorded for the space {report.space!r}{others}{f' ({why})' if why else ''}"
    )


def _is_repaired(report: MemoryInspectionReport | None) -> bool:
    return report is not None and report.store_check is not None and report.store_check.repaired


def _read_rescued(request: MemoryInspectionRequest, rescued: CheckReport) -> MemoryInspectionReport:
    """Return the report on a store that was rescued below its engine; sealing's own data is repaired now."""
    report, refused = _read_space(request)
    problems = list(rescued.problems)
    if _is_seal_broken(refused):
        problems += asyncio.run(_examine_store(refused, repair=True)).problems
        report, refused = _read_space(request)
    if refused is not None:
        raise refused
    assert report is not None
    if report.store_check is None:
        return report
    whole = replace(rescued, problems=tuple(problems))
    is_repaired, losses = _is_repaired(report), report.store_check.losses
    rescue_check = shown_check(whole, _own_space(), repaired=is_repaired, losses=losses)
    store_check = rescue_check.model_copy(update={"problems": (*rescue_check.problems, *report.store_check.problems)})
    return report.model_copy(update={"store_check": store_check})


def _read_space(
    request: MemoryInspectionRequest, standing: list[SpaceLoss] | None = None
) -> tuple[MemoryInspectionReport | None, Exception | None]:
    """Return the report, or the error of a damaged store that cannot be opened or read.

    Behind an acknowledgement, add the losses of all spaces to `standing`.
    """
    reports: list[MemoryInspectionReport] = []

    async def work(session: CommandSession, _: CommandOutput) -> None:
        reports.append(await session.call(request))
        if standing is not None and request.acknowledge:
            standing.extend((await session.call(MemorySpacesRequest(limit=1))).losses)

    try:
        run_work(work, progress="checking" if request.check else None)
    except (StoreCorrupt, StoreForeign, SealBroken) as refused:
        if isinstance(refused, SealBroken) and not request.check:
            raise
        return None, refused
    except OperationRefused as refused:
        if not request.check or refused.rejected.error_key not in {StoreCorrupt.key, SealBroken.key}:
            raise
        return None, refused
    return reports[0], None


def _is_seal_broken(refused: Exception | None) -> bool:
    if isinstance(refused, OperationRefused):
        return refused.rejected.error_key == SealBroken.key
    return isinstance(refused, SealBroken)


async def _examine_store(refused: Exception | None, *, repair: bool) -> CheckReport:
    """Return the damage: below the engine of a file, else by the store itself, whose space may be unreadable."""
    settings = run_settings()
    if parse_url(settings.store.value).path is not None and not _is_seal_broken(refused):
        is_sealed = keys_of(settings) is not None
        return await rescue_store(settings.store.value, clock=SystemClock(), repair=repair, sealed=is_sealed)
    store = await open_as_made(
        settings.store.value, clock=SystemClock(), keys=keys_of(settings), when_missing=WhenMissing.REFUSE
    )
    try:
        return await store.repair() if repair else await store.check()
    finally:
        await store.close()


def _own_space() -> SpaceId:
    return valid_value(Scope, **scope_fields(run_settings())).space


def _check_code(report: MemoryInspectionReport) -> int | None:
    store_check, account = report.store_check, report.journal_account
    if store_check is not None and store_check.repaired and not store_check.losses:
        return None  # the journal comparison still misses what the repair quarantined
    is_told = account is None or not (account.altered or account.unproven)
    is_held = report.head_standing is None or report.head_standing.is_sound
    is_sound = is_told and is_held and (store_check is None or store_check.ok)
    return None if is_sound else EXIT_DAMAGE


@click.group("platform", cls=PageGroup)
@common_options
def platform_commands() -> None:
    """Show the capabilities of a profile or of this store."""


@platform_commands.command("capability-snapshot")
@profile_option("Host profile.")
@common_but_profile
def capability_snapshot(*, profile: ProfileName) -> None:
    """Show the capabilities of a profile in this version, independent of the machine; opens no store."""
    run_output().report(profile_snapshot(profile), lambda console, snapshot: _show_catalog(console, snapshot.catalog))


@platform_commands.command("capabilities")
@common_options
def capabilities_command() -> int | None:
    """Show the capabilities that are available with this store and this installation."""
    return answer_request(MemoryCapabilitiesRequest(), _show_catalog)


def _show_catalog(console: "Console", catalog: MemoryCapabilityCatalog) -> None:
    rows = [("profile", catalog.profile.value)]
    for name, value in catalog:
        if isinstance(value, CapabilityState):
            rows.append((name.rstrip("_"), _yes_or_reason(value)))
        elif isinstance(value, Value):
            rows += [
                (f"{name}.{inner.rstrip('_')}", _yes_or_reason(state))
                for inner, state in value
                if isinstance(state, CapabilityState)
            ]
    show_pairs(console, rows)


def _yes_or_reason(state: CapabilityState) -> str:
    """Return yes, or the reason why not."""
    if state.visible:
        return "yes"
    missing = [name for name, says_yes in state if name != "visible" and not says_yes]
    return f"no: {', '.join(missing)}"


@page_command("spaces")
@page_options("Maximum number of spaces on a page.")
@common_options
def spaces_command(**options: Any) -> int | None:
    """List the spaces of the store with the size of their transcripts."""

    async def work(session: CommandSession, out: CommandOutput) -> None:
        report, labels = await session.call(MemorySpacesRequest(**options)), await project_labels(session)
        out.report(report, lambda console, page: _show_spaces(console, page, labels))

    return run_work(work, hints=False)


def _show_spaces(console: "Console", report: MemorySpacesReport, labels: Mapping[str, str]) -> None:
    rows = (
        (
            f"{entry.space} ({labels[entry.space]})" if entry.space in labels else entry.space,
            *((entry.conversations, entry.turns) if entry.readable else ("unreadable", "")),
            tables_common.minute_text(entry.first_at),
            tables_common.minute_text(entry.last_at),
        )
        for entry in report.spaces
    )
    columns = ("space", "conversations", "turns", "from", "to")
    numbers = ("conversations", "turns")
    tables_common.show_table(console, columns, rows, numbers=numbers, none="the store has no spaces yet")
    tables_common.show_losses(console, report.losses)
    tables_common.show_more(console, report.next_cursor)


_SCHEMA: Final = "elytron.state.conversation_heads"


class HeadsFile(Value):
    """The heads of a store's spaces when it was last found sound, or accepted."""

    schema_name: Literal["elytron.state.conversation_heads"] = _SCHEMA
    schema_version: Literal[1] = 1
    heads: dict[Space, Annotated[str, Field(pattern=f"^{HEAD.pattern}$")]]


class VerifyReport(Value):
    """Every space with its recorded head, and whether the current heads replaced them."""

    spaces: tuple[VerifiedSpace, ...]
    ok: bool
    renewed: bool


@page_command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--accept", is_flag=True, help="Write the current heads to FILE regardless; required for a new FILE.")
@common_options
def verify_command(*, file: Path, accept: bool) -> int | None:
    """Compare every space with the journal heads recorded in FILE, to detect tampering or rollback.

    Keep FILE where those who can write to the store cannot change it. A missing space, a shorter journal or a different
    history means that a space was restored, changed or erased; the exit code is then 13, and FILE is left unchanged.
    Each document is also compared with its last journal entry. If all is well, the current heads are written to FILE.
    """
    settings = run_settings()
    # Checked with `os`, which also returns False for an invalid file name.
    is_first = accept and not os.path.exists(file)  # noqa: PTH110
    heads = {} if is_first else read_value(HeadsFile, file).heads
    spaces = asyncio.run(_verify_spaces(settings, heads))
    ok = all(space.is_sound for space in spaces)
    renewed = ok or accept
    if renewed:
        replace_file(file, _file_of(spaces))
    report = VerifyReport(spaces=spaces, ok=ok, renewed=renewed)
    out = run_output()
    out.report(
        report,
        lambda console, _: tables_common.show_pairs(
            console, [(safe_line(each.space), _check_text(each)) for each in spaces]
        ),
    )
    return None if ok or accept else EXIT_DAMAGE


async def _verify_spaces(settings: RunSettings, heads: Mapping[SpaceId, str]) -> tuple[VerifiedSpace, ...]:
    store = await open_as_made(
        settings.store.value, clock=SystemClock(), keys=keys_of(settings), when_missing=WhenMissing.REFUSE
    )
    try:
        return await verify_store(store, heads)
    finally:
        await store.close()


def _file_of(spaces: tuple[VerifiedSpace, ...]) -> bytes:
    data = canonical_bytes(HeadsFile(heads={SpaceId(space.space): space.head for space in spaces if space.head}))
    if len(data) > limits.JSON_BYTES:
        raise LimitExceeded(what="bytes in a file of heads", limit=limits.JSON_BYTES, found=len(data))
    return data


def _check_text(space: VerifiedSpace) -> str:
    standing = space.standing.value if space.standing is not None else "new"
    is_told = space.head or not space.account.ok
    return f"{standing}; {tables_common.account_text(space.account)}" if is_told else standing


_LIBRARIES = ("pydantic", "numpy", "cryptography", "click")


class SqliteReport(Value):
    """The SQLite library in use, its journal mode, and the reason for it."""

    library: str
    version: str
    journal_mode: str
    reason: str


class StoreReport(Value):
    """The state of the store."""

    state: Literal["sound", "damaged", "lossy", "absent", "refused"]
    """Lossy: sound, but repairs could not save everything, and no operator has acknowledged that."""
    engine: str | None = None
    capabilities: StoreCapabilities | None = None
    check: StoreCheck | None = None
    losses: tuple[SpaceLoss, ...] = ()
    """What repairs could not save, by space."""
    unsealed: tuple[Space, ...] = ()
    """Plain spaces of users who have a secret; the user's next unlock seals them."""
    error_key: str | None = None
    reason: str = ""
    computable_keys: int = 0
    """Keys of gateway users that can be computed from older copies of the store."""
    queued_spaces: int | None = None
    """Spaces with unfinished jobs; null if the store does not list them."""


class ServerItem(Value):
    """A setting or metric of a database server, and how it endangers a store; empty if it does not."""

    name: str
    value: str
    danger: str = ""


class DoctorReport(Value):
    """Everything a bug report needs, and no secret."""

    config: dict[str, ConfigItem]
    versions: dict[str, str]
    sqlite: SqliteReport
    server: tuple[ServerItem, ...] = ()
    """Of the database server, if the store is on one that answers."""
    store: StoreReport
    shared_hooks: tuple[str, ...] = ()
    """Settings files of Claude Code whose hooks use one space for all repositories."""
    assistants: tuple[WiringCheck, ...] = ()
    """The state of each part that `elytron install` wrote."""


_COMPUTABLE = (
    "user keys can be derived from older copies or backups of this store: rotate each key "
    "(`memory-gateway rotate-key`) and delete the older copies"
)
_SHARED = (
    "all repositories share the space {space!r}; run `elytron hooks claude-code install` to give each its "
    "own and `elytron repo migrate` to split it, or confirm the shared one with --space"
)


@page_command("doctor")
@common_options
def doctor_command() -> int | None:
    """Show each setting with its origin, the installed versions, and the state of the store.

    For a store on a database server, also shows the server settings that it relies on, with any risks. A missing store
    is not created. What `elytron install` wrote is tried, and nothing is stored by that. Exits with 13 if the store is
    damaged or has an unacknowledged loss, or with the code of the error if it cannot be opened.
    """
    from elytron_cli.commands.agents.install import record_path, shared_settings

    settings = run_settings()
    report = DoctorReport(
        config={
            name: ConfigItem(value=item.masked_value, origin=item.origin)
            for name, item in settings.explicit_settings().items()
        },
        versions=_installed_versions(),
        sqlite=_sqlite_report(),
        server=asyncio.run(_server_items(settings)),
        store=asyncio.run(_store_report(settings)),
        shared_hooks=shared_settings(),
        assistants=tuple(check_wiring(read_record(record_path()), os.environ, program=program_path(sys.argv[0]))),
    )
    rows = [(name, f"{item.value}  ({item.origin})") for name, item in report.config.items()]
    rows += [*report.versions.items(), ("sqlite", _sqlite_line(report.sqlite))]
    rows += [(item.name, f"{item.value}: {item.danger}" if item.danger else item.value) for item in report.server]
    rows += [("store is", _store_line(report.store))]
    if report.store.computable_keys:
        rows.append(("gateway keys", f"{report.store.computable_keys} {_COMPUTABLE}"))
    if report.store.queued_spaces:
        rows.append(("unfinished jobs", f"in {report.store.queued_spaces} spaces"))
    rows += [("lost", tables_common.loss_text(loss)) for loss in report.store.losses]
    rows += [("unsealed", f"{space}: will be sealed when its user next unlocks it") for space in report.store.unsealed]
    rows += [("hooks", f"{file}: {_SHARED.format(space=settings.space.value)}") for file in report.shared_hooks]
    for host in dict.fromkeys(check.host for check in report.assistants):
        checks = [check for check in report.assistants if check.host is host]
        failures = [f"{check.part} in {check.file}: {check.problem}" for check in checks if check.problem]
        rows += [(host.value, line) for line in failures or ["the hooks and tools answer"]]
    run_output().report(report, lambda console, _: tables_common.show_pairs(console, rows))
    match report.store.state:
        case "refused":
            return failure_of(report.store.error_key or "").exit
        case "damaged" | "lossy":
            return EXIT_DAMAGE
        case _:
            return None


def _installed_versions() -> dict[str, str]:
    python = f"{platform.python_version()} {platform.python_implementation()} on {platform.system()}"
    return {"elytron": version_of("elytron"), "python": python} | {name: version_of(name) for name in _LIBRARIES}


def _sqlite_report() -> SqliteReport:
    from elytron_store.sqlite.driver import driver_report

    driver = driver_report()
    return SqliteReport(
        library=driver.library, version=driver.version, journal_mode=driver.journal_mode, reason=driver.reason
    )


async def _server_items(run_values: RunSettings) -> tuple[ServerItem, ...]:
    """Return a database server's properties, before the store there is opened."""
    from elytron_store import parse_url

    try:
        address = parse_url(run_values.store.value)
        if address.engine != "postgres" or address.url is None:
            return ()
        from elytron_store.postgres.address import parse_address
        from elytron_store.postgres.tables import examine_server

        settings = await examine_server(parse_address(address.url))
    except (ElytronError, ImportError):
        return ()  # the store's own report says why
    return tuple(ServerItem(name=item.name, value=item.value, danger=item.danger) for item in settings)


async def _store_report(settings: RunSettings) -> StoreReport:
    from elytron_store import parse_url

    try:
        async with open_session(settings) as session:
            report = await session.call(MemoryInspectionRequest(check=True))
            losses = await session.runtime.context.losses.read()
            computable_keys = await _computable_keys(session.runtime)
            unsealed = await _unsealed_spaces(session)
            queued = await _count_queued(session.runtime.context.store)
    except StoreMissing:
        engine = parse_url(settings.store.value).engine
        return StoreReport(state="absent", engine=engine, reason="it will be created at the first write")
    except ElytronError as error:
        return _refused_report(reject_error(error, request_id=""))
    except OperationRefused as refused:
        return _refused_report(refused.rejected)
    check = report.store_check
    is_damaged = check is None or bool(check.problems)
    return StoreReport(
        state="damaged" if is_damaged else "lossy" if losses else "sound",
        engine=report.engine,
        capabilities=report.store,
        check=check,
        losses=losses,
        computable_keys=computable_keys,
        unsealed=unsealed,
        queued_spaces=queued,
    )


async def _computable_keys(runtime: "MemoryRuntime") -> int:
    """Return how many gateway users have a key computable from older copies of the store; this one no longer allows
    it."""
    from elytron_gateway.accounts import GatewayUsers

    users = GatewayUsers(runtime.context)
    try:
        await users.upgrade()
        return await users.count_computable()
    except ElytronError:
        return 0  # the store's check reports the damage


async def _count_queued(store: "Store") -> int | None:
    from elytron_core.ports.store import queued_spaces

    try:
        return sum([1 async for _ in queued_spaces(store)]) if store.capabilities.queue_index else None
    except ElytronError:
        return None  # the store's check reports the damage


async def _unsealed_spaces(session: CommandSession) -> tuple[SpaceId, ...]:
    from elytron.secrets.user_spaces import unsealed_spaces

    try:
        return tuple(await unsealed_spaces(session.runtime.secrets.store.inner))
    except ElytronError:
        return ()  # a store shared by another server does not show its users


def _refused_report(rejected: RejectedAnswer) -> StoreReport:
    return StoreReport(state="refused", error_key=rejected.error_key, reason=rejected.reason)


def _sqlite_line(sqlite: SqliteReport) -> str:
    return f"{sqlite.library} {sqlite.version}, journal {sqlite.journal_mode}: {sqlite.reason}"


def _store_line(store: StoreReport) -> str:
    able = tables_common.promises_text(store.capabilities) if store.capabilities is not None else ""
    return "  ".join(part for part in (store.state, store.engine or "", able, store.reason) if part)
