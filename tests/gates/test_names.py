"""Names are understandable on their own: at least two words, with few exceptions; class names are unique."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.house import bare_participles, is_one_word, is_participle, lasting_names, source_files
from tests.gates.tree import ROOT, definitions, parse

ONE_WORD = {
    "Agent": "what a host runs",
    "Authenticator": "a port of hosts",
    "Batch": "the unit of a store's commit",
    "Candidate": "a plane's item",
    "Clock": "a port of hosts",
    "Conflict": "an error that hosts catch",
    "Conversation": "a plane's item",
    "Document": "what a store keeps",
    "Embedder": "a port of hosts",
    "Engine": "what a store is made of",
    "Envelope": "the card's word for a call",
    "Fact": "a plane's item",
    "Fixture": "the card's word for a story to replay",
    "Job": "a plane's item",
    "Message": "a plane's item",
    "Operation": "an entry of the registry",
    "Overloaded": "an error that hosts catch",
    "Principal": "the field's word for a caller that was let in",
    "Record": "a plane's item",
    "Request": "the base of every request",
    "Reranker": "a port of hosts",
    "Route": "a row of what a server serves",
    "Scope": "whose memory a request means",
    "Skill": "a plane's item",
    "Store": "the port of engines",
    "Subagent": "what an agent may call",
    "Subject": "a plane's item",
    "Surface": "a path of a server",
    "Tool": "what an agent may call",
    "Turn": "a plane's item",
    "Unauthorized": "an error that hosts catch",
    "Unreachable": "an error that hosts catch",
    "Unsupported": "an error that hosts catch",
    "Value": "the base of every stored value",
    "ask": "an everyday call",
    "connect": "an everyday call",
    "instant": "an everyday call",
    "main": "what runs a process",
    "open": "an everyday call",
    "wrap": "an everyday call",
}
"""Each one-word name, with the reason."""


def named_by(path: Path) -> list[tuple[str, bool]]:
    """Return the names of the module's functions and classes, with whether each is a class."""
    return [
        (node.name, isinstance(node, ast.ClassDef))
        for node in parse(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def test_a_function_or_class_has_two_words_unless_the_list_gives_a_reason() -> None:
    found = {(path, name) for path in source_files() for name, _ in named_by(path) if is_one_word(name)}
    assert len(ONE_WORD) <= 40
    assert not {f"{path.relative_to(ROOT)}: {name}" for path, name in found if name not in ONE_WORD}
    assert not set(ONE_WORD) - {name for _, name in found}, "no longer a name"


def test_no_two_classes_share_a_name() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in source_files():
        for name, is_class in named_by(path):
            if is_class:
                homes[name.strip("_")].append(str(path.relative_to(ROOT)))
    assert not {name: places for name, places in homes.items() if len(places) > 1}


def test_few_functions_share_a_name() -> None:
    names = [name for path in source_files() for name, is_class in named_by(path) if not is_class]
    counts = Counter(names)
    assert sum(counts[name] > 1 for name in names) <= 0.12 * len(names)


SAID_BY_PARTICIPLE = {
    "elytron_agent/blocks/toolset.py: __init__: seen": "a keyword of the public call",
    "elytron_core/errors/tree.py: __init__: found": "a field that errors carry to clients",
    "elytron_core/errors/tree.py: __init__: known": "a field that errors carry to clients",
}
"""Each variable that is a bare participle, with the reason."""


_CLIENTS = "a field that clients read"
_STORED = "a field of stored documents"
_VALUE = "its own value, which clients or documents hold"
LASTING_PARTICIPLES = {
    "elytron/flows/maintenance.py: BacklogReport.left": _CLIENTS,
    "elytron/passes/continuity.py: StateAnswer.done": "a field that a model writes",
    "elytron_agent/loop/removal.py: SharedMemory.KEPT": _VALUE,
    "elytron_agent/rag/embedding_wire.py: QuotaState.used": _CLIENTS,
    "elytron_agent/runs/events.py: StopReason.DONE": _VALUE,
    "elytron_agent/service/responses/response_repository.py: ResponseDocument.asked": _STORED,
    "elytron_agent/service/wire.py: AgentEventKind.DONE": _VALUE,
    "elytron_assistants/space_split.py: SpaceSplitReport.left": _CLIENTS,
    "elytron_cli/agents/rules.py: RulesReport.written": _CLIENTS,
    "elytron_cli/chat/screen.py: CommandAnswer.given": _CLIENTS,
    "elytron_console/spending_reports.py: ProgramSpending.written": _CLIENTS,
    "elytron_core/contracts/archive.py: ArchiveWord.KEPT": _VALUE,
    "elytron_core/contracts/continuity.py: ExecutionDraft.done": _CLIENTS,
    "elytron_core/contracts/continuity.py: LayerDecision.left": _CLIENTS,
    "elytron_core/contracts/continuity.py: LayerDecision.taken": _CLIENTS,
    "elytron_core/contracts/continuity.py: LayerOutcome.TAKEN": _VALUE,
    "elytron_core/contracts/facts.py: MergedPair.kept": _CLIENTS,
    "elytron_core/contracts/facts.py: ProfileBearing.NAMED": _VALUE,
    "elytron_core/contracts/inspection.py: JournalAccount.told": _CLIENTS,
    "elytron_core/contracts/maintenance/jobs.py: JobView.done": _CLIENTS,
    "elytron_core/contracts/maintenance/maintenance.py: PassStatus.DONE": _VALUE,
    "elytron_core/contracts/projection.py: PrivateGate.shown": _CLIENTS,
    "elytron_core/contracts/recall.py: AbsenceReason.SHOWN": _VALUE,
    "elytron_core/contracts/recall.py: RecallExtent.NEEDED": _VALUE,
    "elytron_core/contracts/recall.py: RecallOutcome.FOUND": _VALUE,
    "elytron_core/errors/tree.py: Conflict.found": _CLIENTS,
    "elytron_core/errors/tree.py: StoreNewer.found": _CLIENTS,
    "elytron_core/evidence.py: TrustLevel.DRAWN": _VALUE,
    "elytron_core/planes/continuity.py: CapsuleState.DONE": _VALUE,
    "elytron_core/planes/continuity.py: ExecutionState.done": _STORED,
    "elytron_core/planes/continuity.py: ExecutionStatus.DONE": _VALUE,
    "elytron_core/planes/facts.py: Fact.lent": _STORED,
    "elytron_core/planes/jobs.py: Job.done": _STORED,
    "elytron_core/policy/ranking/weights.py: SignalWeights.told": "the name of a signal in hits",
    "elytron_core/ports/store.py: ErasureTarget.named": _CLIENTS,
    "elytron_core/profiles.py: ErasureState.GONE": _VALUE,
    "elytron_gateway/wire.py: DrainAnswer.told": _CLIENTS,
    "elytron_index/query.py: UnitSignals.told": "the name of a signal in hits",
    "elytron_index/structures/columns.py: UnitColumns.told": "the name of a column in checkpoints",
    "elytron_evaluation/proxy_demo.py: DemonstratedCall.said": _CLIENTS,
    "elytron_proxy/figures.py: ProxyFigure.GONE": _VALUE,
    "elytron_replay/comparison.py: JsonDifference.left": "the side across from `right`",
    "elytron_replay/evolve.py: SandboxReport.asked": _CLIENTS,
    "elytron_replay/evolve.py: SandboxReport.found": _CLIENTS,
    "elytron_replay/matrix.py: StoreDifference.left": _CLIENTS,
    "elytron_turn/assembler.py: RequestPart.GIVEN": _VALUE,
    "elytron_turn/compaction.py: CompactionPlan.kept": _CLIENTS,
}
"""Each attribute, field, method, or global that is a bare participle, with the reason."""


def test_attributes_fields_and_globals_have_descriptive_names() -> None:
    bare = {
        f"{_package_path(path)}: {name}"
        for path in source_files()
        for name in lasting_names(parse(path))
        if is_participle(name)
    }
    assert bare == set(LASTING_PARTICIPLES)


def _package_path(path: Path) -> str:
    return "/".join(path.parts[path.parts.index("packages") + 2 :])


def test_variables_have_descriptive_names() -> None:
    functions = (
        (path, node)
        for path in source_files()
        for node in definitions(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    bare = {
        f"{_package_path(path)}: {node.name}: {word}" for path, node in functions for word in bare_participles(node)
    }
    assert bare == set(SAID_BY_PARTICIPLE)
