"""A fact is judged before it is stored, superseded when the world changes, and corrected when it was wrong."""

import elytron
from elytron import FactAuthority, FactKind


def propose(memory: elytron.SyncMemoryRuntime, content: str, *, observed: str, by: FactAuthority) -> str:
    """Propose a value for the slot (profile, home), print the decision, and return the id of the stored fact."""
    decision = memory.add_fact("home", content, kind=FactKind.PROFILE, authority=by, at=observed).decisions[0]
    because = f", because {decision.reason}" if decision.reason else ""
    print(f"{decision.outcome:<10} {content!r} ({by}){because}")
    return str(decision.id)


with elytron.open("memory:") as memory:
    propose(memory, "Ada lives in Porto", observed="2025-03-01", by=FactAuthority.USER_ASSERTED)
    propose(memory, "Ada lives in Madrid", observed="2024-11-20", by=FactAuthority.USER_ASSERTED)
    propose(memory, "Ada may live in Paris", observed="2026-01-10", by=FactAuthority.EXTRACTED)
    propose(memory, "Ada certainly lives in Rome", observed="2026-02-01", by=FactAuthority.ASSISTANT_SELF_CLAIM)
    current = propose(memory, "Ada lives in Lisboa", observed="2026-05-09", by=FactAuthority.USER_ASSERTED)

    print("\nbelieved now:", memory.recall("Where does Ada live?").hits[0].text)

    memory.correct(current, "Ada lives in Lisbon", reason="English spelling, please")
    print("after the correction:", memory.recall("Where does Ada live?").hits[0].text)

    print("\nthe slot's history:")
    for item in memory.history(current).items:
        print(f"  {item.event:<10} {item.text or ''}{f'({item.reason})' if item.reason else ''}")
