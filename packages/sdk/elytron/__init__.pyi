__version__: str
from elytron.factory import RuntimeOpening as RuntimeOpening
from elytron.factory import open as open  # noqa: A004 - the verb of the product
from elytron.flows.transcript_import import TranscriptImportReport as TranscriptImportReport
from elytron.flows.transcript_import import import_transcript as import_transcript
from elytron.remote import RemoteConnecting as RemoteConnecting
from elytron.remote import RemoteMemory as RemoteMemory
from elytron.remote import SyncRemoteMemory as SyncRemoteMemory
from elytron.remote import connect as connect
from elytron.runtime import MemoryRuntime as MemoryRuntime
from elytron.runtime import SyncMemoryRuntime as SyncMemoryRuntime
from elytron_core.clock import instant as instant
from elytron_core.contracts.archive import *
from elytron_core.contracts.continuity import *
from elytron_core.contracts.facts import *
from elytron_core.contracts.inspection import *
from elytron_core.contracts.maintenance.embedding import *
from elytron_core.contracts.maintenance.jobs import *
from elytron_core.contracts.maintenance.maintenance import *
from elytron_core.contracts.memories import *
from elytron_core.contracts.projection import *
from elytron_core.contracts.recall import *
from elytron_core.contracts.records import *
from elytron_core.contracts.skills import *
from elytron_core.contracts.tools import *
from elytron_core.contracts.transcript import *
from elytron_core.errors import ElytronError as ElytronError
from elytron_core.evidence import EvidenceAuthority as EvidenceAuthority
from elytron_core.evidence import EvidenceRole as EvidenceRole
from elytron_core.evidence import TrustLevel as TrustLevel
from elytron_core.planes.candidates import AdmissionVerdict as AdmissionVerdict
from elytron_core.planes.candidates import CandidateDraft as CandidateDraft
from elytron_core.planes.candidates import CandidateJudgement as CandidateJudgement
from elytron_core.planes.candidates import CandidateState as CandidateState
from elytron_core.planes.candidates import CandidateTarget as CandidateTarget
from elytron_core.planes.candidates import DiagnosticProposal as DiagnosticProposal
from elytron_core.planes.candidates import FactProposal as FactProposal
from elytron_core.planes.candidates import GardenProposal as GardenProposal
from elytron_core.planes.candidates import OriginTag as OriginTag
from elytron_core.planes.candidates import SkillProposal as SkillProposal
from elytron_core.planes.candidates import SoulProposal as SoulProposal
from elytron_core.planes.continuity import CapsuleKind as CapsuleKind
from elytron_core.planes.continuity import CapsuleState as CapsuleState
from elytron_core.planes.continuity import ExecutionStatus as ExecutionStatus
from elytron_core.planes.continuity import GardenRole as GardenRole
from elytron_core.planes.facts import FactAuthority as FactAuthority
from elytron_core.planes.facts import FactConfidence as FactConfidence
from elytron_core.planes.facts import FactKind as FactKind
from elytron_core.planes.facts import FactOperation as FactOperation
from elytron_core.planes.facts import FactPrivacy as FactPrivacy
from elytron_core.planes.facts import FactReach as FactReach
from elytron_core.planes.facts import FactState as FactState
from elytron_core.planes.facts import FactTier as FactTier
from elytron_core.planes.facts import FreshnessHint as FreshnessHint
from elytron_core.planes.facts import FreshnessState as FreshnessState
from elytron_core.planes.facts import LearningAction as LearningAction
from elytron_core.planes.jobs import JobState as JobState
from elytron_core.planes.jobs import MaintenancePass as MaintenancePass
from elytron_core.planes.records import RecordVersion as RecordVersion
from elytron_core.planes.skills import ReuseOutcome as ReuseOutcome
from elytron_core.planes.skills import SkillSource as SkillSource
from elytron_core.planes.subjects import EdgeKind as EdgeKind
from elytron_core.planes.subjects import SoulBinding as SoulBinding
from elytron_core.planes.subjects import SoulSurface as SoulSurface
from elytron_core.planes.subjects import SubjectKind as SubjectKind
from elytron_core.planes.subjects import SubjectLifecycle as SubjectLifecycle
from elytron_core.planes.subjects import SubjectMount as SubjectMount
from elytron_core.planes.subjects import SubjectVisibility as SubjectVisibility
from elytron_core.planes.tools import AgentToolDescriptor as AgentToolDescriptor
from elytron_core.planes.tools import AgentToolRegistryRef as AgentToolRegistryRef
from elytron_core.planes.tools import AgentToolRegistrySnapshot as AgentToolRegistrySnapshot
from elytron_core.planes.tools import RegistryOwner as RegistryOwner
from elytron_core.planes.tools import RegistryScope as RegistryScope
from elytron_core.planes.transcript import ActorAttribution as ActorAttribution
from elytron_core.planes.transcript import AttributePolicy as AttributePolicy
from elytron_core.planes.transcript import AttributeSource as AttributeSource
from elytron_core.planes.transcript import DerivedMemoryRef as DerivedMemoryRef
from elytron_core.planes.transcript import HostOpaqueRef as HostOpaqueRef
from elytron_core.planes.transcript import HostRefRelation as HostRefRelation
from elytron_core.planes.transcript import HostRefVisibility as HostRefVisibility
from elytron_core.planes.transcript import Message as Message
from elytron_core.planes.transcript import MessageAttribute as MessageAttribute
from elytron_core.planes.transcript import OpaqueItem as OpaqueItem
from elytron_core.planes.transcript import ToolObservation as ToolObservation
from elytron_core.planes.transcript import TranscriptEvidenceRef as TranscriptEvidenceRef
from elytron_core.planes.transcript import TurnDelivery as TurnDelivery
from elytron_core.planes.transcript import TurnOrigin as TurnOrigin
from elytron_core.planes.transcript import TurnSource as TurnSource
from elytron_core.policy.spending_budget import SpendingBudget as SpendingBudget
from elytron_core.policy.tools import with_fingerprints as with_fingerprints
from elytron_core.profiles import HostRoom as HostRoom
from elytron_core.profiles import MemoryPressure as MemoryPressure
from elytron_core.profiles import ModeInput as ModeInput
from elytron_core.profiles import ProfileName as ProfileName
from elytron_core.scope import Scope as Scope
from elytron_integrations.clients.model_clients import wrap as wrap
from elytron_store import WhenMissing as WhenMissing
from elytron_store import WriteDurability as WriteDurability
from elytron_store.sealed.providers import FileKeys as FileKeys
