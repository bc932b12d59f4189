"""Commands that inspect a whole space."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from elytron.ops.inspection import shown_check
from elytron_adapter.envelope import EXIT_DAMAGE
from elytron_cli.input.options import PageGroup, common_but_profile, common_options, page_command, page_options
from elytron_cli.input.values import profile_option, valid_value
from elytron_cli.session import (
    CommandSession,
    answer_request,
    keys_of,
    project_labels,
    run_output,
    run_settings,
    run_work,
    scope_fields,
)
from elytron_cli.tables import inspection as tables_inspection
from elytron_cli.tables import layout as tables_layout
from elytron_cli.tables.layout import show_pairs
from elytron_cli.terminal.output import CommandOutput, OperationRefused
from elytron_core.clock import SystemClock
from elytron_core.contracts.inspection import (
    CapabilityState,
    MemoryCapabilitiesRequest,
    MemoryCapabilityCatalog,
    MemoryInspectionReport,
    MemoryInspectionRequest,
    MemorySpacesReport,
    MemorySpacesRequest,
)
from elytron_core.errors import (
    SealBroken,
    StoreBusy,
    StoreCorrupt,
    StoreForeign,
    Unsupported,
)
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.policy.platform.capabilities import profile_snapshot
from elytron_core.ports.store_checks import CheckReport
from elytron_core.profiles import ProfileName, SpaceLoss, count_text
from elytron_core.scope import Scope
from elytron_store import WhenMissing, open_as_made, parse_url, rescue_store
from elytron_store.limits import BUSY_WAIT_S

if TYPE_CHECKING:
    from rich.console import Console


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
    remaining_losses: list[SpaceLoss] = []
    report, refusal = _read_space(request, remaining_losses)
    rescue_report: CheckReport | None = None
    if refusal is not None or (repair and not _is_repaired(report)):
        try:
            rescue_report = asyncio.run(_examine_store(refusal, repair=repair))
        except StoreBusy as error:
            raise StoreBusy(
                engine=parse_url(run_settings().store.value).engine,
                waited_s=BUSY_WAIT_S,
                way_out="stop the server that has this store open, then retry",
            ) from error
        except (Unsupported, StoreForeign) as error:
            if refusal is not None:
                raise (
                    error if isinstance(refusal, StoreCorrupt) and isinstance(error, StoreForeign) else refusal
                ) from None
    if rescue_report is not None and not repair:
        run_output().report(shown_check(rescue_report, _own_space(), repaired=False), tables_inspection.show_check)
        return EXIT_DAMAGE
    if rescue_report is not None:
        report = _read_rescued(request, rescue_report)
    assert report is not None
    # The catalog of capabilities has a separate command, and would be four fifths of the report.
    run_output().report(report.model_copy(update={"capabilities": None}), tables_inspection.show_inspection)
    if acknowledge:
        run_output().hint(_remaining_text(report, remaining_losses))
    return _check_code(report)


def _remaining_text(report: MemoryInspectionReport, losses: Sequence[SpaceLoss]) -> str:
    """Return the effect of an acknowledgement, and which spaces still have a loss."""
    names = sorted("a space that is not known" if loss.space is None else repr(loss.space) for loss in losses)
    remainder_phrase = f"; still recorded: {', '.join(names)}" if names else "; no space has one"
    if report.acknowledged:
        return f"acknowledged {count_text(report.acknowledged, 'loss', 'losses')}{remainder_phrase}"
    unknown_space_note = "a loss of an unknown space goes with the last of the others" if report.losses else ""
    return (
        f"nothing acknowledged: no loss is recorded for the space {report.space!r}{remainder_phrase}"
        f"{f' ({unknown_space_note})' if unknown_space_note else ''}"
    )


def _is_repaired(report: MemoryInspectionReport | None) -> bool:
    return report is not None and report.store_check is not None and report.store_check.repaired


def _read_rescued(request: MemoryInspectionRequest, rescued: CheckReport) -> MemoryInspectionReport:
    """Return the report on a store that was rescued below its engine; sealing's own data is repaired now."""
    report, refusal = _read_space(request)
    problems = list(rescued.problems)
    if _is_seal_broken(refusal):
        problems += asyncio.run(_examine_store(refusal, repair=True)).problems
        report, refusal = _read_space(request)
    if refusal is not None:
        raise refusal
    assert report is not None
    if report.store_check is None:
        return report
    whole_check = replace(rescued, problems=tuple(problems))
    is_repaired, losses = _is_repaired(report), report.store_check.losses
    rescue_check = shown_check(whole_check, _own_space(), repaired=is_repaired, losses=losses)
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
    except (StoreCorrupt, StoreForeign, SealBroken) as refusal:
        if isinstance(refusal, SealBroken) and not request.check:
            raise
        return None, refusal
    except OperationRefused as refusal:
        if not request.check or refusal.rejected.error_key not in {StoreCorrupt.key, SealBroken.key}:
            raise
        return None, refusal
    return reports[0], None


def _is_seal_broken(refusal: Exception | None) -> bool:
    if isinstance(refusal, OperationRefused):
        return refusal.rejected.error_key == SealBroken.key
    return isinstance(refusal, SealBroken)


async def _examine_store(refusal: Exception | None, *, repair: bool) -> CheckReport:
    """Return the damage: below the engine of a file, else by the store itself, whose space may be unreadable."""
    settings = run_settings()
    if parse_url(settings.store.value).path is not None and not _is_seal_broken(refusal):
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
    is_journal_consistent = account is None or not (account.altered or account.unproven)
    is_head_sound = report.head_standing is None or report.head_standing.is_sound
    is_space_sound = is_journal_consistent and is_head_sound and (store_check is None or store_check.ok)
    return None if is_space_sound else EXIT_DAMAGE


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
                (f"{name}.{inner_name.rstrip('_')}", _yes_or_reason(state))
                for inner_name, state in value
                if isinstance(state, CapabilityState)
            ]
    show_pairs(console, rows)


def _yes_or_reason(state: CapabilityState) -> str:
    """Return yes, or the reason why not."""
    if state.visible:
        return "yes"
    missing_conditions = [name for name, says_yes in state if name != "visible" and not says_yes]
    return f"no: {', '.join(missing_conditions)}"


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
            tables_layout.minute_text(entry.first_at),
            tables_layout.minute_text(entry.last_at),
        )
        for entry in report.spaces
    )
    columns = ("space", "conversations", "turns", "from", "to")
    numbers = ("conversations", "turns")
    tables_layout.show_table(console, columns, rows, numbers=numbers, none="the store has no spaces yet")
    tables_inspection.show_losses(console, report.losses)
    tables_layout.show_more(console, report.next_cursor)
