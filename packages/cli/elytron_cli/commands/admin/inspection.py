"""Looking at a whole space."""

import click

from elytron_adapter.failures import EXIT_DAMAGE
from elytron_cli.input.options import command, common
from elytron_cli.runner import answer
from elytron_cli.tables import common as tables_common
from elytron_core.contracts.admin.inspection import MemoryInspectionReport, MemoryInspectionRequest


@command("inspect")
@click.option("--check", is_flag=True, help="Read every byte of the store and report damage.")
@click.option("--repair", is_flag=True, help="Check, and move what is damaged aside; nothing is thrown away.")
@click.option("--head", metavar="HEAD", help="A head that was kept elsewhere: say whether the space still holds it.")
@common
def inspect(*, check: bool, repair: bool, head: str | None) -> int | None:
    """Say what the space holds.

    Exits with 13 where a check finds damage, or anything that the journal did not tell of, and where the space does not
    hold the head: an older state was put back.
    """
    request = MemoryInspectionRequest(check=check or repair, repair=repair, head=head)
    return answer(request, tables_common.inspected, code=_code)


def _code(report: MemoryInspectionReport) -> int | None:
    account = report.journal_account
    is_told = account is None or not (account.altered or account.unproven)
    is_held = report.head_standing is None or report.head_standing.is_sound
    is_sound = is_told and is_held and (report.store_check is None or report.store_check.ok)
    return None if is_sound else EXIT_DAMAGE
