"""The operations of governance, continuity and subjects."""

from elytron import flows, ops
from elytron.registry.operation import AnyOperation, Grave, Operation, Repeat
from elytron_core.contracts.conversation import candidates, continuity
from elytron_core.contracts.knowledge import facts, subjects
from elytron_core.planes.knowledge.learning_rules import LearningAction
from elytron_core.planes.knowledge.long_term import Privacy

_DISCLOSING = {"action": frozenset({facts.FactAction.CHANGE_PRIVACY.value})}
_OPENED = {"privacy": frozenset({Privacy.PUBLIC.value, Privacy.SHARED.value})}
_ALLOWING = {"action": frozenset({LearningAction.RESUME.value, LearningAction.ALLOW.value})}
_ACCEPTING = {"resolution": frozenset({candidates.Resolution.ACCEPT.value})}

GOVERNING: tuple[AnyOperation, ...] = (
    Operation("list_candidates", candidates.CandidateListRequest, candidates.CandidateListReport,
              lambda: ops.list_candidates, "Read proposed beliefs that wait for a decision."),
    Operation("resolve_candidate", candidates.CandidateResolveRequest, candidates.CandidateResolveReport,
              lambda: ops.resolve_candidate, "Decide on a proposed belief.", mutates=True, repeat=Repeat.RECEIPT,
              grave=Grave.AGREES, grave_values=_ACCEPTING),
    Operation("list_facts", facts.FactListRequest, facts.FactListReport, lambda: ops.list_facts,
              "Read facts in full, with what they are worth."),
    Operation("get_fact", facts.FactDetailRequest, facts.FactDetailReport, lambda: ops.get_fact,
              "Read one fact in full."),
    Operation("profile", facts.ProfileRequest, facts.ProfileReport, lambda: flows.profile,
              "Tell what stands of a person, grouped and cited."),
    Operation("change_fact", facts.FactChangeRequest, facts.FactChangeReport, lambda: ops.change_fact,
              "Correct, supersede, delete, mark stale or invalidate a fact, or change its privacy or scope.",
              mutates=True, repeat=Repeat.RECEIPT, grave=Grave.AGREES, grave_values=_DISCLOSING,
              private_values=_OPENED),
    Operation("forget_facts", facts.FactForgetRequest, facts.FactForgetReport, lambda: ops.forget_facts,
              "Forget the facts that a query means; a dry run gives the token.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("set_learning", facts.LearningRequest, facts.LearningReport, lambda: ops.set_learning,
              "Pause or resume learning, suppress or allow a topic.", mutates=True, repeat=Repeat.RECEIPT,
              grave=Grave.AGREES, grave_values=_ALLOWING),
    Operation("merge_facts", candidates.MemoryMergeRequest, candidates.MemoryMergeReport, lambda: ops.merge_facts,
              "Fold facts that say nearly the same; can be undone.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("read_continuity", continuity.ContinuityRequest, continuity.ContinuityReport, lambda: ops.read_continuity,
              "Say where a conversation stands."),
    Operation("export_continuity", continuity.ContinuityExportRequest, continuity.ContinuityExportReport,
              lambda: ops.export_continuity, "Take a conversation's continuity along."),
    Operation("import_continuity", continuity.ContinuityImportRequest, continuity.ContinuityImportReport,
              lambda: ops.import_continuity, "Take a continuity snapshot into a conversation.", mutates=True,
              repeat=Repeat.RECEIPT),
    Operation("read_subjects", subjects.SubjectsRequest, subjects.SubjectsReport, lambda: ops.read_subjects,
              "Say who takes part in a space.", operator_values={"audience": frozenset({"audit"})}),
    Operation("read_garden", subjects.GardenRequest, subjects.GardenReport, lambda: ops.read_garden,
              "Read a conversation's private documents.", private_values={"audience": frozenset({"owner", "model"})}),
)  # fmt: skip
