"""A typed request has the same effect as the short form of a call."""

from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron_core.contracts.archive import ImportMode
from elytron_core.contracts.memories import HiddenFilter, HistoryEvent
from elytron_core.contracts.skills import (
    RuntimeSkillDeleteRequest,
    RuntimeSkillDetailRequest,
    RuntimeSkillReuseRequest,
    RuntimeSkillSetEnabledRequest,
)
from elytron_core.errors import InvalidInput, ScopeMissing
from elytron_core.ids import SeededIds
from elytron_core.planes.facts import FactAuthority, FactKind
from elytron_core.planes.skills import ReuseOutcome

pytestmark = pytest.mark.anyio

TEA = elytron.FactDraft(topic="tea", content="Ada drinks green tea")
NAME = "runtime_skill__brew"


async def test_typed_and_plain_calls_agree_for_skills() -> None:
    async with elytron.open("memory:", space="ada", ids=SeededIds()) as memory:
        brew = elytron.RuntimeSkillWrite(
            name="brew", topic="tea", title="Brew tea", summary="How to brew tea", content="1. Boil.\n2. Pour.\n3. Wait"
        )
        await memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=(brew,))))
        named = await memory.get_runtime_skill(NAME)
        assert await memory.get_runtime_skill(RuntimeSkillDetailRequest(name=NAME)) == named
        assert (await memory.set_runtime_skill_enabled(RuntimeSkillSetEnabledRequest(name=NAME, enabled=False))).changed
        assert (await memory.recall("brew tea")).hits == ()
        missed = RuntimeSkillReuseRequest(names=(NAME,), outcome=ReuseOutcome.MISMATCH)
        assert (await memory.record_skill_reuse(missed)).changed
        assert (await memory.delete_runtime_skill(RuntimeSkillDeleteRequest(name=NAME))).changed
        assert (await memory.list_runtime_skills()).total == 0


async def test_typed_and_plain_calls_agree_when_forgetting_correcting_and_erasing() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        draft = elytron.MemoryWriteRequest(write=elytron.LongTermExtraction(facts=(TEA,)))
        kept = (await memory.write(draft)).decisions[0].id
        assert kept is not None
        assert (await memory.forget(kept, reason="not now")).changed
        assert kept not in [hit.id for hit in (await memory.recall("tea")).hits]
        assert [item.id for item in (await memory.list(hidden=HiddenFilter.LISTED)).items] == [kept]
        assert (await memory.forget([kept], undo=True)).changed
        corrected = await memory.correct(kept, "Ada drinks white tea", reason="misheard")
        told = (await memory.history(kept)).items
        assert (told[-1].text, told[-2].event, told[-2].reason) == (
            "Ada drinks white tea",
            HistoryEvent.CORRECTED,
            "misheard",
        )
        erased = await memory.erase((kept, corrected.decisions[0].new_id or ""))
        assert erased.removed["facts"] == 2
        assert (await memory.erase(whole_space="ada", reason="asked for")).changed
        assert (await memory.recall("tea")).reason == "empty_space"


async def test_typed_and_plain_calls_agree_for_a_users_memory_without_a_runtime_space() -> None:
    async with elytron.open("memory:", space=None) as memory:
        said = (await memory.add(["One.", "Two.", "Three."], user_id="ada")).ids
        await memory.forget(said[0], user_id="ada")
        await memory.erase(said[1], user_id="ada")
        assert [item.text for item in (await memory.list(user_id="ada")).items] == ["Three."]
        assert (await memory.erase(whole_space="ada", user_id="ada")).changed
        with pytest.raises(ScopeMissing):
            await memory.erase(said[2])


async def test_typed_and_plain_calls_agree_for_narrowed_lists_and_blocks() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("The ferry leaves at seven.", speaker="Ada", conversation="trip")
        await memory.add("The cat sleeps.", speaker="Noor", conversation="home")
        hers = elytron.RecallFilters(speakers=("Noor",))
        page = await memory.list(filters=hers, limit=1)
        assert [item.text for item in page.items] == ["The cat sleeps."]
        block = (await memory.project("", conversation="trip")).system_memory_block
        assert "ferry" in block
        assert "cat" not in block
        assert "ferry" not in (await memory.project("ferry", filters=hers)).system_memory_block


async def test_requests_without_a_memory_are_rejected_by_field() -> None:
    nameless: Any = 7
    async with elytron.open("memory:", space="ada") as memory:
        with pytest.raises(InvalidInput, match="ids must be a memory's id or a list"):
            await memory.forget(nameless)
        with pytest.raises(ScopeMissing):
            await memory.erase()
        with pytest.raises(InvalidInput, match="content"):
            await memory.correct("01a201bb-ccf0-7000-b08b-3b68fb04bd18", "")


async def test_typed_and_plain_calls_agree_when_adding_a_fact() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        said = (await memory.add("I drink green tea.")).ids
        plain = await memory.add_fact(
            "tea",
            "Ada drinks green tea",
            kind=FactKind.PREFERENCE,
            authority=FactAuthority.USER_ASSERTED,
            at="2026-05-09",
            citations=said,
        )
        kept = await memory.get(plain.ids[0])
        assert (kept.text, kept.trust, kept.citations) == ("Ada drinks green tea", elytron.TrustLevel.VOUCHED, said)
        assert kept.at == elytron.instant("2026-05-09")
        drafts = elytron.LongTermExtraction(facts=(TEA,))
        typed = await memory.write(elytron.MemoryWriteRequest(write=drafts, dry_run=True))
        assert typed.decisions[0].plane == plain.decisions[0].plane
        again = [await memory.add_fact("home", "Ada lives in Porto", idempotency_key="home-1") for _ in range(2)]
        assert [report.duplicated for report in again] == [False, True]
        weaker = await memory.add_fact("tea", "Ada hates tea", kind=FactKind.PREFERENCE)
        assert (weaker.changed, weaker.decisions[0].verdict) == (False, elytron.AdmissionVerdict.REJECT)
        with pytest.raises(InvalidInput, match="kind must be one of preference"):
            await memory.add_fact("tea", "Ada drinks tea", kind="taste")  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidInput, match="topic"):
            await memory.add_fact("", "Ada drinks tea")


async def test_typed_and_plain_calls_agree_for_one_of_many_users(tmp_path: Path) -> None:
    async with elytron.open("memory:", space=None) as memory:
        await memory.add(["one", "two"], user_id="ada", conversation="trip")
        await memory.add_fact("tea", "Ada drinks green tea", user_id="ada")
        scope = elytron.Scope(space="ada")
        inspected = await memory.inspect(user_id="ada", check=True)
        assert inspected == await memory.inspect(elytron.MemoryInspectionRequest(scope=scope, check=True))
        assert (await memory.inspect(user_id="ada", head=inspected.head)).head_standing == "current"
        page = await memory.replay("trip", limit=1, user_id="ada")
        assert [turn.messages[0].text for turn in page.turns] == ["two"]
        page = await memory.replay("trip", cursor=page.next_cursor, user_id="ada")
        assert [turn.messages[0].text for turn in page.turns] == ["one"]
        await memory.export(tmp_path / "ada.elytron", user_id="ada", include_private=True)
        shared = await memory.export(tmp_path / "shared.elytron", user_id="ada", include_private=False)
        assert shared.space == "ada"
        await memory.import_archive(tmp_path / "ada.elytron", user_id="moved")
        told = await memory.import_archive(tmp_path / "ada.elytron", mode=ImportMode.BOOTSTRAP, user_id="grace")
        assert told.imported == {"facts": 1, "turns": 2}
        moved = await memory.inspect(user_id="moved", fingerprints=True)
        assert moved.state_fingerprint == inspected.state_fingerprint
