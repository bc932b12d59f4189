"""Two clocks: `as_of` selects what was true at a time, `known_at` what was believed at a time."""

import elytron
from elytron import FactAuthority, FactKind, instant
from elytron_core.clock import FrozenClock, as_datetime


def tell(memory: elytron.SyncMemoryRuntime, employer: str, *, since: str) -> None:
    by = FactAuthority.USER_ASSERTED
    memory.add_fact("employer", f"Ada works for {employer}", kind=FactKind.PROFILE, authority=by, at=since)


def ask(
    memory: elytron.SyncMemoryRuntime, label: str, *, as_of: str | None = None, known_at: str | None = None
) -> None:
    filters = elytron.RecallFilters(
        planes=(elytron.RecallPlane.LONG_TERM,),
        as_of=instant(as_of) if as_of is not None else None,
        known_at=instant(known_at) if known_at is not None else None,
    )
    hits = memory.recall("Where does Ada work?", filters=filters).hits
    print(f"{label:<48} {hits[0].text if hits else 'nothing'}")


clock = FrozenClock(instant("2026-01-15"))
with elytron.open("memory:", clock=clock) as memory:
    tell(memory, "the harbour office", since="2026-01-15")
    clock.advance(instant("2026-06-20") - clock.now())
    # The change happened on 1 June; we learn of it three weeks later.
    tell(memory, "the ropeworks", since="2026-06-01")

    print(f"today is {as_datetime(clock.now()):%d %B %Y}")
    ask(memory, "now")
    ask(memory, "what held in March?", as_of="2026-03-01")
    ask(memory, "what held on 10 June?", as_of="2026-06-10")
    ask(memory, "what did we believe on 10 June, of 10 June?", as_of="2026-06-10", known_at="2026-06-10")
    ask(memory, "what did we know before the first word?", as_of="2026-01-14", known_at="2026-01-14")
