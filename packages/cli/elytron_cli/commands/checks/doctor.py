"""The command that shows the configuration and checks the store."""

import asyncio
import os
import platform
import sys
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Literal

from elytron_adapter.envelope import EXIT_DAMAGE, RejectedAnswer, failure_of, reject_error
from elytron_assistants.wiring.probe import WiringCheck, check_wiring
from elytron_assistants.wiring.wiring_files import read_record
from elytron_cli.commands.config import ConfigItem
from elytron_cli.config import RunSettings, program_path
from elytron_cli.input.options import common_options, page_command
from elytron_cli.session import (
    CommandSession,
    open_session,
    run_output,
    run_settings,
)
from elytron_cli.tables import inspection as tables_inspection
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import OperationRefused
from elytron_core.contracts.inspection import (
    MemoryInspectionRequest,
    StoreCheck,
)
from elytron_core.errors import (
    ElytronError,
    StoreMissing,
)
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.profiles import SpaceLoss, StoreCapabilities
from elytron_core.scope import Space

if TYPE_CHECKING:
    from elytron.runtime import MemoryRuntime
    from elytron_core.ports.store import Store


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
    rows += [("lost", tables_inspection.loss_text(loss)) for loss in report.store.losses]
    rows += [("unsealed", f"{space}: will be sealed when its user next unlocks it") for space in report.store.unsealed]
    rows += [("hooks", f"{file}: {_SHARED.format(space=settings.space.value)}") for file in report.shared_hooks]
    for host in dict.fromkeys(check.host for check in report.assistants):
        checks = [check for check in report.assistants if check.host is host]
        failures = [f"{check.part} in {check.file}: {check.problem}" for check in checks if check.problem]
        rows += [(host.value, line) for line in failures or ["the hooks and tools answer"]]
    run_output().report(report, lambda console, _: tables_layout.show_pairs(console, rows))
    match report.store.state:
        case "refused":
            return failure_of(report.store.error_key or "").exit
        case "damaged" | "lossy":
            return EXIT_DAMAGE
        case _:
            return None


def _installed_versions() -> dict[str, str]:
    python_version = f"{platform.python_version()} {platform.python_implementation()} on {platform.system()}"
    return {"elytron": version_of("elytron"), "python": python_version} | {
        name: version_of(name) for name in _LIBRARIES
    }


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
            unsealed_spaces = await _unsealed_spaces(session)
            queued_count = await _count_queued(session.runtime.context.store)
    except StoreMissing:
        engine = parse_url(settings.store.value).engine
        return StoreReport(state="absent", engine=engine, reason="it will be created at the first write")
    except ElytronError as error:
        return _refused_report(reject_error(error, request_id=""))
    except OperationRefused as refusal:
        return _refused_report(refusal.rejected)
    store_check = report.store_check
    is_damaged = store_check is None or bool(store_check.problems)
    return StoreReport(
        state="damaged" if is_damaged else "lossy" if losses else "sound",
        engine=report.engine,
        capabilities=report.store,
        check=store_check,
        losses=losses,
        computable_keys=computable_keys,
        unsealed=unsealed_spaces,
        queued_spaces=queued_count,
    )


async def _computable_keys(runtime: "MemoryRuntime") -> int:
    """Return how many gateway users have a key computable from older copies of the store; this one no longer allows
    it."""
    from elytron_gateway.users import GatewayUsers

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


def _refused_report(rejection: RejectedAnswer) -> StoreReport:
    return StoreReport(state="refused", error_key=rejection.error_key, reason=rejection.reason)


def _sqlite_line(sqlite: SqliteReport) -> str:
    return f"{sqlite.library} {sqlite.version}, journal {sqlite.journal_mode}: {sqlite.reason}"


def _store_line(store: StoreReport) -> str:
    promises = tables_inspection.promises_text(store.capabilities) if store.capabilities is not None else ""
    return "  ".join(part for part in (store.state, store.engine or "", promises, store.reason) if part)
