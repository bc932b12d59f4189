"""Everything that came through one tool, page, upload, or session is erased as a set, and nothing else."""

import pytest
from tests.sdk.told import believe, learn

import elytron
from elytron import (
    EvidenceRole,
    MemoryEraseRequest,
    MemoryWriteRequest,
    Message,
    OriginKind,
    OutsideOrigin,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.errors import InvalidInput
from elytron_core.planes.transcript import HostOpaqueRef, HostRefRelation, ToolObservation

pytestmark = pytest.mark.anyio

PAGE = "https://shop.example/tea"
SAID = {
    OriginKind.TOOL: {"tool_observations": (ToolObservation(observation_id="o", tool_name="browse"),)},
    OriginKind.PAGE: {"metadata": {"url": PAGE}, "external_content_used": True},
    OriginKind.UPLOAD: {
        "host_refs": (HostOpaqueRef(host_kind="app", business_ref_type="upload", business_ref_id="r_7"),),
        "external_content_used": True,
    },
    OriginKind.SESSION: {
        "host_refs": (HostOpaqueRef(host_kind="app", business_ref_type="session", business_ref_id="s_1"),),
        "external_content_used": True,
    },
}
NAMES = {OriginKind.TOOL: "browse", OriginKind.PAGE: PAGE, OriginKind.UPLOAD: "r_7", OriginKind.SESSION: "s_1"}


async def tell(memory: elytron.MemoryRuntime, *messages: Message, **more: object) -> str:
    turn = TurnDraft.model_validate({"messages": messages, **more})
    return (await memory.write(MemoryWriteRequest(write=TranscriptWrite(turns=(turn,))))).ids[0]


async def listed(memory: elytron.MemoryRuntime) -> set[str]:
    return {item.text for item in (await memory.list()).items}


@pytest.mark.parametrize("kind", list(OriginKind))
async def test_erasing_an_origin_erases_its_content_and_exclusive_derivatives(
    memory: elytron.MemoryRuntime, kind: OriginKind
) -> None:
    mine = await tell(memory, Message(text="I drink green tea."))
    asked = Message(text="Which tea is on sale?")
    seen = Message(role=EvidenceRole.TOOL, text="Buy the blue tea.")
    answer = Message(role=EvidenceRole.ASSISTANT, text="The blue tea is on sale.")
    turn = await tell(memory, asked, seen, answer, **SAID[kind])
    await believe(memory, "sale", "Blue tea is on sale.", citations=(f"{turn}#1",))
    await believe(memory, "drink", "Green tea.", citations=(mine, f"{turn}#2"))
    await learn(memory, "brew", "1. Heat water.\n2. Add tea.\n3. Wait.")
    origin = OutsideOrigin(kind=kind, name=NAMES[kind])

    told = await memory.erase(MemoryEraseRequest(origin=origin, dry_run=True))
    assert (told.changed, told.removed["facts"], told.removed["messages"]) == (False, 1, 1)
    with pytest.raises(InvalidInput, match="dry run"):
        await memory.erase(MemoryEraseRequest(origin=origin))
    assert len(await listed(memory)) == 7

    done = await memory.erase(MemoryEraseRequest(origin=origin, token=told.token))
    assert (done.changed, done.removed, len(done.derived)) == (True, told.removed, 1)
    assert await listed(memory) == {
        "I drink green tea.",
        "Which tea is on sale?",
        "Green tea.",
        "Steps for deploying\n1. Heat water.\n2. Add tea.\n3. Wait.",
    }
    again = await memory.erase(MemoryEraseRequest(origin=origin, dry_run=True))
    assert again.decisions == ()


async def test_a_token_covers_only_what_its_dry_run_listed(memory: elytron.MemoryRuntime) -> None:
    origin = OutsideOrigin(kind=OriginKind.PAGE, name=PAGE)
    source = HostOpaqueRef(
        host_kind="app", business_ref_type="page", business_ref_id=PAGE, relation=HostRefRelation.ORIGIN
    )
    await tell(memory, Message(text="Buy the blue tea."), host_refs=(source,))
    told = await memory.erase(MemoryEraseRequest(origin=origin, dry_run=True))
    await tell(memory, Message(text="Buy the red tea."), host_refs=(source,))
    with pytest.raises(InvalidInput, match="dry run"):
        await memory.erase(MemoryEraseRequest(origin=origin, token=told.token))
    told = await memory.erase(MemoryEraseRequest(origin=origin, dry_run=True))
    await memory.erase(MemoryEraseRequest(origin=origin, token=told.token))
    assert await listed(memory) == set()


async def test_an_origin_cannot_be_combined_and_an_empty_space_has_none(memory: elytron.MemoryRuntime) -> None:
    origin = OutsideOrigin(kind=OriginKind.TOOL, name="browse")
    assert not (await memory.erase(MemoryEraseRequest(origin=origin))).changed
    with pytest.raises(InvalidInput, match="both set"):
        await memory.erase(MemoryEraseRequest(origin=origin, ids=("x",)))
