"""What each plane stores: overwritten, never duplicated, recalled where allowed, hidden and erased like any memory."""

import pytest
from tests.sdk.told import believe, put, talk

import elytron
from elytron_core import limits
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.contracts.continuity import LayerOutcome, SnapshotLayer
from elytron_core.contracts.memories import HistoryEvent
from elytron_core.contracts.transcript import MemoryWriteReport, WriteOutcome
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId
from elytron_core.planes.continuity import CapsuleState
from elytron_core.planes.facts import FactKind

pytestmark = pytest.mark.anyio

LEASE = {"capsule_kind": "work_session", "topic": "lease", "summary": "The lease of the tea shop is drawn up."}
MOVE = {"goal": "move the tea shop", "blocker": "no van", "pending": ["rent a van"]}
SOUL = {"soul": "io"}


def outcomes(report: MemoryWriteReport) -> list[WriteOutcome]:
    return [decision.outcome for decision in report.decisions]


async def everything(memory: elytron.MemoryRuntime) -> dict[str, str]:
    """Fill every plane and return an id in each."""
    written = {
        "turn": await talk(memory, (EvidenceRole.USER, "The quince harvest is in.")),
        "fact": await believe(memory, "quince", "the quince harvest is in October"),
        "capsule": await put(memory, "capsules", capsules=[{**LEASE, "topic": "quince"}]),
        "state": await put(memory, "execution", state={**MOVE, "goal": "quince jam"}),
        "summary": await put(memory, "summary", summary={"text": "They talk of quince.", "messages": 40}),
        "note": await put(memory, "notes", notes=[{"period": "2026-01-03", "text": "Quince was picked."}]),
        "garden": await put(memory, "garden", documents=[{"role": "diary", "name": "q", "text": "Quince smells."}]),
        "subject": await put(
            memory, "subjects", subjects=[{"name": "agent:quince", "subject_kind": "agent_persona", "soul": SOUL}]
        ),
    }
    return {name: report.ids[0] for name, report in written.items()}


async def test_the_same_topic_is_overwritten_and_equal_content_confirmed(memory: elytron.MemoryRuntime) -> None:
    first = await put(memory, "capsules", capsules=[LEASE])
    again = await put(memory, "capsules", capsules=[LEASE])
    signed = await put(memory, "capsules", capsules=[{**LEASE, "topic": "  Lease ", "summary": "It is signed."}])
    assert [outcomes(report) for report in (first, again, signed)] == [["stored"], ["confirmed"], ["updated"]]
    assert first.ids == again.ids == signed.ids
    report = await memory.read_continuity(elytron.ContinuityRequest(query="lease"))
    assert [capsule.summary for capsule in report.capsules] == ["It is signed."]
    assert (report.selected, report.block) == (first.ids, "[work_session] Lease: It is signed.")


async def test_a_capsule_that_replaces_another_hides_it(memory: elytron.MemoryRuntime) -> None:
    (old,) = (await put(memory, "capsules", capsules=[LEASE])).ids
    new = {"capsule_kind": "handoff", "topic": "shop", "summary": "Mina runs the shop.", "supersedes": old}
    assert outcomes(await put(memory, "capsules", capsules=[new])) == ["stored"]
    assert [hit.title for hit in (await memory.recall("lease shop")).hits] == ["shop"]
    lost = {**new, "topic": "else", "supersedes": "capsule:00"}
    refused = await put(memory, "capsules", capsules=[lost, {**LEASE, "summary": " "}])
    assert outcomes(refused) == ["rejected", "rejected"]


async def test_an_untouched_capsule_becomes_stale_and_is_not_selected(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await put(memory, "capsules", capsules=[LEASE])
    clock.advance(14 * DAY_MS)
    report = await memory.read_continuity()
    assert ([capsule.state for capsule in report.capsules], report.selected) == ([CapsuleState.STALE], ())


async def test_the_least_valuable_capsules_are_dropped_beyond_the_limit(memory: elytron.MemoryRuntime) -> None:
    many = [{**LEASE, "topic": f"matter {number}"} for number in range(limits.CAPSULES_PER_CONVERSATION)]
    await put(memory, "capsules", capsules=many)
    report = await put(memory, "capsules", capsules=[LEASE])
    assert outcomes(report) == ["stored", "deleted"]
    assert (await memory.inspect()).documents["capsules"] == limits.CAPSULES_PER_CONVERSATION
    assert report.decisions[1].id not in [hit.id for hit in (await memory.recall("matter", limit=50)).hits]


async def test_there_is_one_state_and_summary_per_conversation_and_summaries_never_shrink(
    memory: elytron.MemoryRuntime,
) -> None:
    await put(memory, "execution", state=MOVE)
    assert outcomes(await put(memory, "execution", state=MOVE)) == ["confirmed"]
    done = {**MOVE, "blocker": "", "pending": [], "status": "done"}
    assert outcomes(await put(memory, "execution", state=done)) == ["updated"]
    assert outcomes(await put(memory, "execution", state={"goal": " "})) == ["rejected"]
    await put(memory, "summary", summary={"text": "They move.", "messages": 60})
    assert outcomes(await put(memory, "summary", summary={"text": "They", "messages": 40})) == ["skipped"]
    assert outcomes(await put(memory, "summary", summary={"text": "\u200b", "messages": 80})) == ["rejected"]
    assert outcomes(await put(memory, "summary", summary={"text": "They move.", "messages": 60})) == ["confirmed"]
    report = await memory.read_continuity()
    assert report.state is not None
    assert report.summary is not None
    assert (report.state.status.value, report.summary.text) == ("done", "They move.")


async def test_a_summary_is_due_at_forty_messages_and_every_twenty_after(memory: elytron.MemoryRuntime) -> None:
    async def is_due_after(messages: int) -> bool:
        await talk(memory, *[(EvidenceRole.USER, f"message {number}") for number in range(messages)])
        return (await memory.read_continuity()).summary_is_due

    assert [await is_due_after(39), await is_due_after(1)] == [False, True]
    await put(memory, "summary", summary={"text": "So far.", "messages": 40, "through_sequence": 2})
    assert [await is_due_after(19), await is_due_after(1)] == [False, True]


async def test_there_is_one_note_per_day_or_month_and_it_is_recalled_as_evidence(memory: elytron.MemoryRuntime) -> None:
    days = [
        {"period": "2026-02-30", "text": "no such day"},
        {"period": "2026-02-03", "text": "The kiln broke.", "citations": ["ticket 7"]},
        {"period": "2026-02", "text": "A month of repairs."},
        {"period": "2026-01-01", "text": " "},
    ]
    written = await put(memory, "notes", notes=days)
    assert outcomes(written) == ["rejected", "stored", "stored", "rejected"]
    assert outcomes(await put(memory, "notes", notes=days[1:3])) == ["confirmed", "confirmed"]
    report = await memory.recall("who said the kiln broke?")
    hit = report.hits[0]
    assert report.intent == "evidence"
    assert (hit.plane, hit.title, hit.citations) == (elytron.RecallPlane.ARCHIVE, "2026-02-03", ("ticket 7",))
    assert hit.signals["route"] == 32
    assert [note.period for note in (await memory.read_continuity()).notes] == ["2026-02-03", "2026-02"]


async def test_a_garden_holds_sixteen_documents_visible_only_to_its_audience(
    memory: elytron.MemoryRuntime,
) -> None:
    documents = [{"role": "workspace", "name": f"d{number}", "text": "tulips"} for number in range(15)]
    await put(memory, "garden", documents=[*documents, {"role": "sealed", "name": "s", "text": "roses"}])
    more = await put(memory, "garden", documents=[documents[0], {"role": "diary", "name": "one more", "text": "x"}])
    assert outcomes(more) == ["confirmed", "rejected"]
    assert outcomes(await put(memory, "garden", documents=[{**documents[0], "text": " "}])) == ["rejected"]
    seen = {}
    for audience in elytron.GardenAudience:
        report = await memory.read_garden(elytron.GardenRequest(audience=audience))
        seen[audience.value] = (len(report.documents), report.withheld)
    assert seen == {"owner": (16, 0), "model": (15, 1), "host_ui": (0, 16)}
    assert (await memory.recall("tulips roses")).hits == ()
    assert (await memory.get_all()).items == ()
    with pytest.raises(InvalidInput, match="private document"):
        await memory.get(more.ids[0])
    assert [item.text for item in (await memory.history(more.ids[0])).items] == [None]
    with pytest.raises(InvalidInput):
        await put(memory, "garden", documents=[{"role": "diary", "name": "big", "text": "ä" * 4097}])


async def test_a_persona_has_its_own_complete_soul(memory: elytron.MemoryRuntime) -> None:
    io = {"name": "agent:io", "subject_kind": "agent_persona", "soul": SOUL}
    mina = {"name": "mina", "subject_kind": "human_user"}
    twin = {**io, "name": "agent:twin"}
    refused = [
        twin,
        {"name": "agent:none", "subject_kind": "agent_persona"},
        {**mina, "soul": {"soul": "hers"}},
        {**twin, "soul": {"soul": "half", "surfaces": ["values"]}},
    ]
    report = await put(memory, "subjects", subjects=[io, mina, *refused])
    assert outcomes(report) == ["stored", "stored", *["rejected"] * 4]
    assert outcomes(await put(memory, "subjects", subjects=[twin, io])) == ["rejected", "confirmed"]
    await put(memory, "subjects", subjects=[{**io, "lifecycle": "retired"}])
    assert outcomes(await put(memory, "subjects", subjects=[twin])) == ["stored"]
    await put(memory, "subjects", subjects=[{**twin, "soul": {"soul": "another"}}])
    assert outcomes(await put(memory, "subjects", subjects=[io])) == ["updated"]


async def test_edges_connect_subjects_and_hidden_ones_appear_only_in_an_audit(memory: elytron.MemoryRuntime) -> None:
    people = [
        {"name": "mina", "subject_kind": "human_user"},
        {"name": "law", "subject_kind": "system_governor", "visibility": "hidden"},
    ]
    edges = [
        {"source": "law", "edge_kind": "governs", "target": "mina"},
        {"source": "mina", "edge_kind": "observes", "target": "mina"},
        {"source": "mina", "edge_kind": "observes", "target": "nobody"},
    ]
    report = await put(memory, "subjects", subjects=people, edges=edges)
    assert outcomes(report)[2:] == ["stored", "rejected", "rejected"]
    assert outcomes(await put(memory, "subjects", edges=edges[:1])) == ["confirmed"]
    host = await memory.read_subjects()
    assert ([one.name for one in host.subjects], host.edges, host.withheld) == (["mina"], (), 1)
    audit = await memory.read_subjects(elytron.SubjectsRequest(audience=elytron.SubjectAudience.AUDIT))
    assert ([one.name for one in audit.subjects], len(audit.edges)) == (["law", "mina"], 1)
    erased = await memory.erase(elytron.MemoryEraseRequest(ids=(audit.subjects[0].id,)))
    assert erased.removed == {"subject_edges": 1, "subjects": 1}


async def test_every_plane_is_counted_listed_hidden_and_erased_by_the_same_verbs(
    memory: elytron.MemoryRuntime,
) -> None:
    ids = await everything(memory)
    assert (await memory.inspect()).planes == {
        elytron.RecallPlane.CONTINUITY: 1,
        elytron.RecallPlane.EXECUTION: 1,
        elytron.RecallPlane.LONG_TERM: 1,
        elytron.RecallPlane.ARCHIVE: 1,
        elytron.RecallPlane.PRIVATE_GARDEN: 1,
        elytron.RecallPlane.SUBJECT: 1,
        elytron.RecallPlane.SUMMARY: 1,
        elytron.RecallPlane.TRANSCRIPT: 1,
    }
    shown = {name for name in ids if name not in {"garden", "subject"}}
    assert {hit.id for hit in (await memory.recall("quince", limit=50)).hits} == {ids[name] for name in shown}
    assert {hit.id for hit in (await memory.get_all()).items} == {ids[name] for name in shown}
    filters = elytron.RecallFilters(conversations=("elsewhere",))
    assert (await memory.recall("quince", filters=filters)).hits == ()

    hide = elytron.MemoryForgetRequest(ids=tuple(ids.values()))
    hidden = await memory.forget(hide)
    assert set(hidden.planes) == (await memory.inspect()).planes.keys() - {elytron.RecallPlane.SUBJECT}
    assert (await memory.recall("quince", limit=50)).hits == ()
    assert (await memory.get(ids["capsule"])).text.startswith("The lease")
    back = await memory.forget(hide.model_copy(update={"undo": True}))
    assert back.planes == hidden.planes
    assert len((await memory.recall("quince", limit=50)).hits) == len(shown)

    dry = await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids.values()), dry_run=True))
    done = await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids.values())))
    assert (dry.removed, dry.planes) == (done.removed, done.planes)
    assert (await memory.inspect()).planes == {}
    assert done.removed["soul_bindings"] == 1
    for name in ids.values():
        with pytest.raises(NotFound):
            await memory.get(name)


async def test_memories_derived_from_an_erased_message_are_listed(memory: elytron.MemoryRuntime) -> None:
    (said,) = (await talk(memory, (EvidenceRole.USER, "The code word is plum."))).ids
    capsule = await put(memory, "capsules", capsules=[{**LEASE, "provenance": [said]}])
    summary = await put(memory, "summary", summary={"text": "A code word was told.", "messages": 40})
    note = await put(memory, "notes", notes=[{"period": "2026-01-03", "text": "Plum.", "citations": [said]}])
    erased = await memory.erase(elytron.MemoryEraseRequest(ids=(said,)))
    assert set(erased.derived) == {*capsule.ids, *summary.ids, *note.ids}


async def test_a_conversation_continues_in_another_memory(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await believe(memory, "drink", "green tea", kind=FactKind.PREFERENCE)
    await put(memory, "long_term", facts=[{"topic": "pin", "content": "secret place", "privacy": "private"}])
    await put(memory, "capsules", capsules=[LEASE])
    await put(memory, "execution", state=MOVE)
    await put(memory, "summary", summary={"text": "They move a shop.", "messages": 40})
    exported = await memory.export_continuity()
    assert exported.private_left == 1
    assert exported.snapshot.manifest.includes == tuple(SnapshotLayer)
    assert "secret place" not in exported.model_dump_json()

    target = elytron.Scope(space=SpaceId("ben"), conversation="new chat")
    full = elytron.ContinuityImportRequest(
        scope=target, snapshot=exported.snapshot, mode=elytron.SnapshotMode.FULL_RESTORE
    )
    tried = await memory.import_continuity(full.model_copy(update={"dry_run": True}))
    taken = await memory.import_continuity(full)
    assert tried.layers == taken.layers
    assert [layer.outcome for layer in taken.layers] == [LayerOutcome.TAKEN] * 4
    there = await memory.read_continuity(elytron.ContinuityRequest(scope=target, query="lease"))
    assert there.state is not None
    assert there.summary is not None
    assert (there.state.goal, there.summary.text, len(there.selected)) == ("move the tea shop", "They move a shop.", 1)
    again = await memory.import_continuity(full)
    assert not again.changed
    assert {layer.outcome for layer in again.layers} == {LayerOutcome.KEPT_OWN}

    clock.advance(1_000)
    newer = await memory.write(
        elytron.MemoryWriteRequest(
            scope=target, write=elytron.ExecutionWrite(state=elytron.ExecutionDraft(goal="sell the shop"))
        )
    )
    assert newer.changed
    await memory.import_continuity(full)
    kept = await memory.read_continuity(elytron.ContinuityRequest(scope=target))
    assert kept.state is not None
    assert kept.state.goal == "sell the shop"


async def test_a_bootstrap_imports_sixteen_facts_and_nothing_else(memory: elytron.MemoryRuntime) -> None:
    for number in range(20):
        await believe(memory, f"topic {number}", f"value {number}", kind=FactKind.FACT)
    await put(memory, "execution", state=MOVE)
    whole = await memory.export_continuity()
    assert (len(whole.snapshot.layers.facts), whole.facts_left) == (20, 0)
    first = await memory.export_continuity(elytron.ContinuityExportRequest(mode=elytron.SnapshotMode.BOOTSTRAP))
    assert (len(first.snapshot.layers.facts), first.facts_left, first.snapshot.layers.state) == (16, 4, None)
    target = elytron.Scope(space=SpaceId("ben"))
    report = await memory.import_continuity(elytron.ContinuityImportRequest(scope=target, snapshot=whole.snapshot))
    facts, *others = report.layers
    assert (facts.taken, facts.left, facts.outcome) == (16, 4, LayerOutcome.PARTLY)
    assert [one.outcome for one in others] == [LayerOutcome.NOT_INCLUDED] * 3


async def test_a_snapshot_that_was_changed_is_refused(memory: elytron.MemoryRuntime) -> None:
    await believe(memory, "drink", "green tea")
    snapshot = (await memory.export_continuity()).snapshot
    changed = snapshot.model_copy(update={"layers": snapshot.layers.model_copy(update={"facts": ()})})
    with pytest.raises(InvalidInput, match="is damaged"):
        await memory.import_continuity(elytron.ContinuityImportRequest(snapshot=changed))
    nobody = elytron.Scope(space=SpaceId("nobody"))
    empty = await memory.export_continuity(elytron.ContinuityExportRequest(scope=nobody))
    report = await memory.import_continuity(
        elytron.ContinuityImportRequest(snapshot=empty.snapshot, mode=elytron.SnapshotMode.FULL_RESTORE)
    )
    assert {layer.outcome for layer in report.layers} == {LayerOutcome.NOT_INCLUDED}
    assert not report.changed


async def test_a_dry_run_write_stores_nothing(memory: elytron.MemoryRuntime) -> None:
    request = elytron.MemoryWriteRequest.model_validate(
        {"write": {"kind": "capsules", "capsules": [LEASE]}, "dry_run": True}
    )
    report = await memory.write(request)
    assert (report.changed, outcomes(report), report.ids) == (False, ["stored"], ())
    assert not (await memory.inspect()).exists
    once = request.model_copy(update={"dry_run": False, "idempotency_key": "k1"})
    first = await memory.write(once)
    assert (await memory.write(once)).ids == first.ids


async def test_an_edge_ends_independently_and_its_subjects_stay(memory: elytron.MemoryRuntime) -> None:
    people = [{"name": name, "subject_kind": "human_user"} for name in ("ada", "bob")]
    edge = {"source": "ada", "edge_kind": "observes", "target": "bob"}
    await put(memory, "subjects", subjects=people, edges=[edge])
    ended = await put(memory, "subjects", ended_edges=[edge])
    assert (outcomes(ended), ended.changed) == (["deleted"], True)
    again = await put(memory, "subjects", ended_edges=[edge])
    assert (outcomes(again), again.changed) == (["skipped"], False)
    found = await memory.read_subjects()
    assert ([one.name for one in found.subjects], found.edges) == (["ada", "bob"], ())
    assert outcomes(await put(memory, "subjects", edges=[edge], ended_edges=[edge])) == ["stored", "deleted"]
    assert (await memory.read_subjects()).edges == ()


async def test_a_chat_resolves_to_its_conversation_in_every_plane(memory: elytron.MemoryRuntime) -> None:
    tied = elytron.Scope(space=SpaceId("ada"), agent="io", chat="c1", conversation="kitchen")
    by_chat = tied.model_copy(update={"conversation": None})
    anothers = by_chat.model_copy(update={"agent": "other"})
    await talk(memory, (EvidenceRole.USER, "The jam is on the stove."), scope=tied)
    await memory.write(write_of(by_chat, "execution", state={"goal": "make jam"}))
    await memory.write(write_of(by_chat, "capsules", capsules=[LEASE]))
    await memory.write(write_of(by_chat, "garden", documents=[{"role": "diary", "name": "d", "text": "Warm."}]))
    report = await memory.read_continuity(elytron.ContinuityRequest(scope=by_chat))
    assert (report.conversation, report.state is not None, len(report.capsules)) == ("kitchen", True, 1)
    garden = await memory.read_garden(elytron.GardenRequest(scope=by_chat, audience=elytron.GardenAudience.OWNER))
    assert (garden.conversation, len(garden.documents)) == ("kitchen", 1)
    whole = elytron.SnapshotMode.FULL_RESTORE
    made = await memory.export_continuity(elytron.ContinuityExportRequest(scope=by_chat, mode=whole))
    assert (made.snapshot.manifest.conversation, made.snapshot.layers.state is not None) == ("kitchen", True)
    maintained = await memory.maintain(elytron.MemoryMaintainRequest(scope=by_chat))
    assert (maintained.conversation, maintained.turns) == ("kitchen", 1)

    closed = await memory.read_continuity(elytron.ContinuityRequest(scope=anothers))
    assert (closed.state, closed.capsules, closed.notes) == (None, (), ())
    hidden = elytron.GardenRequest(scope=anothers, audience=elytron.GardenAudience.OWNER)
    assert (await memory.read_garden(hidden)).documents == ()
    empty = await memory.export_continuity(elytron.ContinuityExportRequest(scope=anothers, mode=whole))
    assert (empty.snapshot.layers.state, empty.snapshot.layers.capsules) == (None, ())
    with pytest.raises(InvalidInput):
        await memory.import_continuity(
            elytron.ContinuityImportRequest(scope=anothers, snapshot=made.snapshot, mode=whole)
        )
    taken = await memory.import_continuity(
        elytron.ContinuityImportRequest(scope=by_chat, snapshot=made.snapshot, mode=whole)
    )
    assert (taken.conversation, taken.changed) == ("kitchen", False)


def write_of(scope: elytron.Scope, kind: str, **write: object) -> elytron.MemoryWriteRequest:
    return elytron.MemoryWriteRequest.model_validate({"scope": scope, "write": {"kind": kind, **write}})


async def test_the_history_in_each_plane_shows_that_a_memory_was_forgotten(memory: elytron.MemoryRuntime) -> None:
    ids = await everything(memory)

    async def events() -> dict[str, list[HistoryEvent]]:
        return {name: [item.event for item in (await memory.history(one)).items] for name, one in ids.items()}

    expected = [HistoryEvent.ADDED]
    assert await events() == dict.fromkeys(ids, expected)
    for undo, event in ((False, HistoryEvent.FORGOTTEN), (True, HistoryEvent.RESTORED)):
        await memory.forget(elytron.MemoryForgetRequest(ids=tuple(ids.values()), undo=undo))
        expected = [*expected, event]
        assert await events() == {name: expected if name != "subject" else expected[:1] for name in ids}
