"""A report on installation, configuration and the store's soundness."""

import asyncio
import platform
from importlib.metadata import version as version_of
from typing import Literal

from elytron_adapter.envelope import Rejected
from elytron_adapter.failures import EXIT_DAMAGE, failure, rejection
from elytron_cli.commands.config import ConfigItem
from elytron_cli.config import Settings
from elytron_cli.input.options import command, common
from elytron_cli.refusal import Refused
from elytron_cli.runner import output, settings
from elytron_cli.session import opened
from elytron_cli.tables import common as tables_common
from elytron_core.contracts.admin.inspection import MemoryInspectionReport, MemoryInspectionRequest, StoreCheck
from elytron_core.errors import ElytronError, StoreMissing
from elytron_core.model import Value
from elytron_core.planes.knowledge.profiles import StoreCapabilities

_LIBRARIES = ("pydantic", "numpy", "cryptography", "click")


class SqliteReport(Value):
    """The SQLite library in use, its journal mode, and the reason for it."""

    library: str
    version: str
    journal_mode: str
    reason: str


class StoreReport(Value):
    """The state of the store."""

    state: Literal["sound", "damaged", "absent", "refused"]
    engine: str | None = None
    capabilities: StoreCapabilities | None = None
    check: StoreCheck | None = None
    error_key: str | None = None
    reason: str = ""


class DoctorReport(Value):
    """Everything a bug report needs, and no secret."""

    config: dict[str, ConfigItem]
    versions: dict[str, str]
    sqlite: SqliteReport
    store: StoreReport


@command("doctor")
@common
def doctor() -> int | None:
    """Show each setting with its source, the versions installed, and whether the store is sound.

    A missing store is not made. Exits with 13 if the store is damaged, and with the error's code if it cannot be
    opened.
    """
    found = settings()
    report = DoctorReport(
        config={name: ConfigItem(value=item.shown, origin=item.origin) for name, item in found.told().items()},
        versions=_versions(),
        sqlite=_sqlite(),
        store=asyncio.run(_store(found)),
    )
    rows = [(name, f"{item.value}  ({item.origin})") for name, item in report.config.items()]
    rows += [*report.versions.items(), ("sqlite", _sqlite_line(report.sqlite)), ("store is", _store_line(report.store))]
    output().report(report, lambda console, _: tables_common.pairs(console, rows))
    match report.store.state:
        case "refused":
            return failure(report.store.error_key or "").exit
        case "damaged":
            return EXIT_DAMAGE
        case _:
            return None


def _versions() -> dict[str, str]:
    python = f"{platform.python_version()} {platform.python_implementation()} on {platform.system()}"
    return {"elytron": version_of("elytron"), "python": python} | {name: version_of(name) for name in _LIBRARIES}


def _sqlite() -> SqliteReport:
    from elytron_store.sqlite.database.driver import driver_report

    found = driver_report()
    return SqliteReport(
        library=found.library, version=found.version, journal_mode=found.journal_mode, reason=found.reason
    )


async def _store(found: Settings) -> StoreReport:
    from elytron_store import parse_url

    try:
        async with opened(found) as session:
            report = await session.call(MemoryInspectionRequest(check=True), MemoryInspectionReport)
    except StoreMissing:
        engine = parse_url(found.store.value).engine
        return StoreReport(state="absent", engine=engine, reason="it is made at the first write")
    except ElytronError as error:
        return _refused(rejection(error, request_id=""))
    except Refused as refused:
        return _refused(refused.rejected)
    check = report.store_check
    sound = check is not None and check.ok
    return StoreReport(
        state="sound" if sound else "damaged", engine=report.engine, capabilities=report.store, check=check
    )


def _refused(rejected: Rejected) -> StoreReport:
    return StoreReport(state="refused", error_key=rejected.error_key, reason=rejected.reason)


def _sqlite_line(sqlite: SqliteReport) -> str:
    return f"{sqlite.library} {sqlite.version}, journal {sqlite.journal_mode}: {sqlite.reason}"


def _store_line(store: StoreReport) -> str:
    able = tables_common.promised(store.capabilities) if store.capabilities is not None else ""
    return "  ".join(part for part in (store.state, store.engine or "", able, store.reason) if part)
