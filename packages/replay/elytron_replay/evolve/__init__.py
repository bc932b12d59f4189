"""Evolution by proposal: changes to memory are tried on a copy, and written only when a caller submits them."""

from elytron_replay.evolve.sandbox import (
    CandidateKind,
    EvolutionCandidate,
    EvolutionProposal,
    ProposalRejection,
    ProposalReview,
    SandboxReport,
    TrialTier,
    load_proposal,
    review_proposal,
    submit_proposal,
    try_out,
)

__all__ = [
    "CandidateKind",
    "EvolutionCandidate",
    "EvolutionProposal",
    "ProposalRejection",
    "ProposalReview",
    "SandboxReport",
    "TrialTier",
    "load_proposal",
    "review_proposal",
    "submit_proposal",
    "try_out",
]
