"""Measure what the runtime and the dispatcher add to a store call: time and ratio, side by side in one run.

    python -m benchmarks.facade [calls]

Rows start with the bare store and add one layer each, on the memory engine, so that the difference between two rows is
the layer between them. Each figure is the median of interleaved rounds.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import elytron
from elytron import MemoryRuntime
from elytron_adapter.dispatch import OperationDispatcher
from elytron_adapter.envelope import AcceptedAnswer, CallTransport, Envelope
from elytron_core.contracts.memories import MemoryGetRequest
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange

ROUNDS = 9
CALLS = 500
BUDGET_US = 100
SPACE = SpaceId("benchmark")
BODY = b'{"sequence":1,"channel":"default","conversation":"default","messages":[{"text":"The ferry leaves at six."}]}'
PAYLOAD = b'{"write":{"kind":"transcript","turns":[{"messages":[{"text":"The ferry leaves at six."}]}]}}'

Call = Callable[[], Awaitable[object]]


def write_request() -> MemoryWriteRequest:
    """Return the request that each write sends."""
    return MemoryWriteRequest(write=TranscriptWrite(turns=(TurnDraft.model_validate(_TURN),)))


_TURN = {"messages": [{"text": "The ferry leaves at six."}]}


class Layers:
    """The same read and the same write at each layer."""

    def __init__(self, memory: MemoryRuntime, known: str, /) -> None:
        self._memory = memory
        self._dispatcher = OperationDispatcher(memory)
        self._store = memory.context.store
        self._known = known
        self._ref = DocumentRef("turns", known)
        self._count = 0

    def reads(self) -> dict[str, Call]:
        """Return a read of one turn at each layer."""
        typed = MemoryGetRequest(id=self._known)
        payload = typed.model_dump_json(exclude_none=True).encode()
        return {
            "store.get": lambda: self._store.get(SPACE, (self._ref,)),
            "runtime.get": lambda: self._memory.get(MemoryGetRequest(id=self._known)),
            "dispatcher, typed": lambda: self._dispatch("get", typed),
            "dispatcher, JSON": lambda: self._dispatch("get", payload),
        }

    def writes(self) -> dict[str, Call]:
        """Return a write of one turn at each layer. The bare store commits as many documents as the runtime does."""
        return {
            "store.commit": self._commit,
            "runtime.write": lambda: self._memory.write(write_request()),
            "dispatcher, typed": lambda: self._dispatch("write", write_request()),
            "dispatcher, JSON": lambda: self._dispatch("write", PAYLOAD),
        }

    async def _commit(self) -> None:
        self._count += 1
        turn, head = DocumentRef("turns", f"ff.{self._count:012x}"), DocumentRef("heads", f"{self._count:012x}")
        await self._store.commit(
            Batch(
                space=SPACE,
                at=self._memory.context.clock.now(),
                entries=(EntryDraft(JournalAction.WRITE, turn, "0" * 32),),
                puts=(PutChange(turn, BODY, 0), PutChange(head, BODY, 0)),
            )
        )

    async def _dispatch(self, operation: str, payload: bytes | MemoryGetRequest | MemoryWriteRequest) -> None:
        envelope = Envelope(request_id="r", transport=CallTransport.SDK, operation=operation, payload=payload)
        answer = await self._dispatcher.dispatch(envelope)
        assert isinstance(answer, AcceptedAnswer), answer


async def measured(calls: dict[str, Call], count: int) -> dict[str, float]:
    """Return the median microseconds of a call by layer. Layers alternate."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(count):
                await call()
            times[name].append((time.perf_counter() - began) / count * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def show(title: str, found: dict[str, float]) -> float:
    """Print a table and return the microseconds that the dispatcher adds to the runtime's call."""
    first = next(iter(found.values()))
    print(f"\n{title:<22}{'us/call':>10}{'ratio':>8}{'over store':>12}")
    for name, value in found.items():
        print(f"{name:<22}{value:>10.1f}{value / first:>8.1f}{value - first:>12.1f}")
    return found["dispatcher, JSON"] - found["runtime.write" if "runtime.write" in found else "runtime.get"]


async def main(count: int) -> None:
    """Measure and print."""
    async with elytron.open("memory:", space=SPACE) as memory:
        known = (await memory.write(write_request())).ids[0]
        layers = Layers(memory, known)
        added = [
            show(title, await measured(calls, count))
            for title, calls in (("read of one turn", layers.reads()), ("write of one turn", layers.writes()))
        ]
    print(f"\nthe dispatcher adds {added[0]:.1f} us to a read and {added[1]:.1f} us to a write (from JSON)")
    print(f"budget over the store's call: {BUDGET_US} us")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS))
