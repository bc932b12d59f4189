"""Other programs' bytes are returned from records unchanged, whatever their size."""

import pytest

import elytron
from elytron.runtime_records import RuntimeRecords, records_of
from elytron_core.errors import LimitExceeded
from elytron_integrations import opaque_parts
from elytron_integrations.opaque_parts import fields_of, joined_data, part_drafts, part_number

PLACE = ("elytron:test", "one")


async def stored_parts(records: RuntimeRecords) -> dict[int, dict[str, object]]:
    """Return the stored records of the value `k` by number."""
    return {part_number(record)[1]: fields_of(record) async for record in records.within(PLACE)}


@pytest.mark.anyio
@pytest.mark.parametrize("size", [0, 1, 150_000, 150_001, 400_000])
async def test_a_value_of_any_size_round_trips(size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    async with elytron.open("memory:", space="ada") as memory:
        records = records_of(memory)
        await records.put_all(part_drafts(PLACE, "k", {"form": "raw"}, data))
        parts = await stored_parts(records)
        assert joined_data(parts) == data
        assert (parts[0]["form"], len(parts)) == ("raw", max(1, -(-size // 150_000)))


@pytest.mark.anyio
async def test_a_shorter_value_completely_replaces_a_longer_one() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        records = records_of(memory)
        for data in (b"a" * 400_000, b"AKIAIOSFODNN7EXAMPLE"):
            await records.put_all(part_drafts(PLACE, "k", {}, data))
        assert joined_data(await stored_parts(records)) == b"AKIAIOSFODNN7EXAMPLE"


def test_a_value_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opaque_parts, "OPAQUE_BYTES", 10)
    with pytest.raises(LimitExceeded, match="bytes in a value of a framework"):
        part_drafts(PLACE, "k", {}, b"a" * 11)
