"""Evolution by proposal: changes to memory are tried on a copy, and written only when a caller submits them."""

from elytron_replay.evolve.sandbox import (
    CandidateKind,
    EvolutionCandidate,
    EvolutionProposal,
    ProposalReview,
    Rejection,
    SandboxReport,
    Tier,
    load_proposal,
    review,
    submit,
    try_out,
)

__all__ = [
    "CandidateKind",
    "EvolutionCandidate",
    "EvolutionProposal",
    "ProposalReview",
    "Rejection",
    "SandboxReport",
    "Tier",
    "load_proposal",
    "review",
    "submit",
    "try_out",
]
