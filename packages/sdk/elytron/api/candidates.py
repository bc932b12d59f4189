"""The calls of governance, continuity and subjects."""

from collections.abc import Sequence

from elytron.api import calls
from elytron.api.calls import BlockingCalls, CallFace, blocking_call, takes_request
from elytron_core.contracts import continuity, facts
from elytron_core.contracts import transcript as contracts_write
from elytron_core.planes.facts import FactAuthority, FactKind, LearningAction


class CandidatesFace(CallFace):
    """Propose and decide on beliefs, merge near duplicates, and read a conversation's state and its subjects.

    The examples start from here:

    >>> target = elytron.CandidateTarget.LONG_TERM
    >>> proposal = elytron.FactProposal(target=target, topic="boat", content="Ada has a boat")
    >>> user = elytron.EvidenceAuthority.USER_ASSERTED
    >>> draft = elytron.CandidateDraft(proposal=proposal, authority=user, citations=(key,))
    >>> proposals = elytron.CandidatesWrite(candidates=(draft,))
    >>> (boat,) = memory.write(elytron.MemoryWriteRequest(write=proposals)).decisions
    """

    async def add_fact(
        self,
        topic: str,
        content: str,
        /,
        *,
        kind: FactKind = FactKind.FACT,
        authority: FactAuthority = FactAuthority.EXTRACTED,
        at: calls.When | None = None,
        citations: Sequence[str] = (),
        idempotency_key: str | None = None,
        user_id: str | None = None,
    ) -> contracts_write.MemoryWriteReport:
        """Propose one fact, which becomes the current one for `topic` if admission accepts it; see the report's
        decision.

        `authority` vouches for it, `at` is when it was observed (as in `add`), `citations` are ids of messages that it
        rests on.

        >>> report = memory.add_fact("home", "Ada lives in Lisbon", kind=elytron.FactKind.PROFILE, citations=[move])
        >>> print(report.decisions[0].outcome)
        stored
        """
        draft = calls.fact_of(
            topic,
            content,
            kind=calls.word_member(FactKind, kind, field="kind"),
            authority=calls.word_member(FactAuthority, authority, field="authority"),
            at=at,
            citations=calls.text_list(citations, field="citations"),
        )
        scope = calls.scope_of(self.scope, user_id=user_id)
        write = contracts_write.LongTermExtraction(facts=(draft,))
        request = contracts_write.MemoryWriteRequest(scope=scope, write=write, idempotency_key=idempotency_key)
        return await self.operate(request)

    async def list_candidates(self, request: facts.CandidateListRequest | None = None, /) -> facts.CandidateListReport:
        """Read proposed beliefs a page at a time; by default, the pending ones.

        >>> [candidate.id == boat.id for candidate in memory.list_candidates().items]
        [True]
        """
        return await self.operate(request or facts.CandidateListRequest())

    async def resolve_candidate(self, request: facts.CandidateResolveRequest, /) -> facts.CandidateResolveReport:
        """Accept or reject a proposed belief. Raises NotFound.

        >>> accept = elytron.CandidateResolveRequest(id=boat.id, resolution=elytron.CandidateResolution.ACCEPT)
        >>> memory.get(memory.resolve_candidate(accept).became).text
        'Ada has a boat'
        """
        return await self.operate(request)

    @takes_request(facts.FactListRequest)
    async def list_facts(self, *, query: str = "", include_private: bool = False) -> facts.FactListReport:
        """Read facts in full a page at a time; by default, current ones that contain the words of `query`.

        >>> [(fact.topic, fact.content) for fact in memory.list_facts(query="tea").items]
        [('tea', 'Ada drinks green tea')]
        """
        request = facts.FactListRequest(query=query, include_private=include_private)
        return await self.operate(request)

    @takes_request(facts.FactDetailRequest)
    async def get_fact(self, fact: str, /, *, include_private: bool = False) -> facts.FactDetailReport:
        """Read one fact in full, in any state. Raises NotFound.

        >>> print(memory.get_fact(tea).fact.state)
        active
        """
        return await self.operate(facts.FactDetailRequest(id=fact, include_private=include_private))

    @takes_request(facts.ProfileRequest)
    async def profile(
        self,
        person: str = "",
        /,
        *,
        as_of: calls.When | None = None,
        wording: facts.ProfileWording = facts.ProfileWording.RULES,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> facts.ProfileReport:
        """Return the facts about a person that hold now, or held at `as_of`, by kind; without a name, about the user.

        With the wording `model`, the language model writes it, and each of its sentences cites facts that support it.

        >>> _ = memory.add_fact("home", "Ada lives in Lisbon", kind=elytron.FactKind.PROFILE)
        >>> print(memory.profile("Ada").text)
        Profile:
        - home: Ada lives in Lisbon
        Fact:
        - tea: Ada drinks green tea
        """
        request = facts.ProfileRequest(
            scope=calls.scope_of(self.scope, user_id=user_id),
            person=person,
            as_of=calls.given_instant(as_of, field="as_of") if as_of is not None else None,
            wording=calls.word_member(facts.ProfileWording, wording, field="wording"),
            include_private=include_private,
        )
        return await self.operate(request)

    async def change_fact(self, request: facts.FactChangeRequest, /) -> facts.FactChangeReport:
        """Change one current fact. Raises NotFound, InvalidInput, PreconditionFailed.

        >>> stale = elytron.FactChangeRequest(id=tea, action=elytron.FactAction.MARK_STALE, reason="years ago")
        >>> print(memory.change_fact(stale).outcome)
        changed
        """
        return await self.operate(request)

    @takes_request(facts.FactForgetRequest)
    async def forget_facts(
        self,
        query: str,
        /,
        *,
        kinds: Sequence[FactKind] = (),
        token: str | None = None,
        reason: str = "",
    ) -> facts.FactForgetReport:
        """Forget the facts that contain every word of `query`. Without the `token` of an earlier call, only list them.

        >>> rehearsal = memory.forget_facts("green tea")
        >>> [fact.content for fact in rehearsal.items]
        ['Ada drinks green tea']
        >>> memory.forget_facts("green tea", token=rehearsal.token, reason="asked to").changed
        True
        """
        members = tuple(calls.word_member(FactKind, kind, field="kinds") for kind in kinds)
        request = facts.FactForgetRequest(query=query, kinds=members, dry_run=token is None, token=token, reason=reason)
        return await self.operate(request)

    @takes_request(facts.LearningRequest)
    async def set_learning(
        self, action: LearningAction, topic: str | None = None, /, *, reason: str = ""
    ) -> facts.LearningReport:
        """Pause or resume learning, of everything or of `topic`; suppress or allow a topic.

        >>> _ = memory.set_learning(elytron.LearningAction.SUPPRESS, "health")
        >>> memory.add_fact("health", "Ada has a cold").decisions[0].reason
        'its topic is suppressed: allow it with set_learning first'
        """
        word = calls.word_member(LearningAction, action, field="action")
        return await self.operate(facts.LearningRequest(action=word, topic=topic, reason=reason))

    async def merge_facts(self, request: facts.MemoryMergeRequest | None = None, /) -> facts.MemoryMergeReport:
        """Merge facts that say nearly the same; `undo` restores them.

        >>> _ = memory.add_fact("hot drink", "Ada drinks green tea")
        >>> [pair.likeness for pair in memory.merge_facts().pairs]
        [1.0]
        """
        return await self.operate(request or facts.MemoryMergeRequest())

    async def read_continuity(
        self, request: continuity.ContinuityRequest | None = None, /
    ) -> continuity.ContinuityReport:
        """Return the state of the scope's conversation: work, summary, capsules, notes.

        >>> state = elytron.ExecutionDraft(goal="move the tea shop", blocker="no van")
        >>> _ = memory.write(elytron.MemoryWriteRequest(write=elytron.ExecutionWrite(state=state)))
        >>> memory.read_continuity().state.blocker
        'no van'
        """
        return await self.operate(request or continuity.ContinuityRequest())

    async def export_continuity(
        self, request: continuity.ContinuityExportRequest | None = None, /
    ) -> continuity.ContinuityExportReport:
        """Export the scope's conversation as a snapshot.

        >>> snapshot = memory.export_continuity().snapshot
        >>> [fact.content for fact in snapshot.layers.facts]
        ['Ada drinks green tea']
        """
        return await self.operate(request or continuity.ContinuityExportRequest())

    async def import_continuity(
        self, request: continuity.ContinuityImportRequest, /
    ) -> continuity.ContinuityImportReport:
        """Import a snapshot into the scope's conversation; the newer version wins.

        >>> snapshot = memory.export_continuity().snapshot
        >>> there = elytron.Scope(space="ada-at-work", conversation="monday")
        >>> memory.import_continuity(elytron.ContinuityImportRequest(scope=there, snapshot=snapshot)).changed
        True
        """
        return await self.operate(request)

    async def read_subjects(self, request: continuity.SubjectsRequest | None = None, /) -> continuity.SubjectsReport:
        """Return the subjects of the space and their relations.

        >>> noor = elytron.SubjectDraft(name="noor", subject_kind="human_user")
        >>> _ = memory.write(elytron.MemoryWriteRequest(write=elytron.SubjectsWrite(subjects=(noor,))))
        >>> [subject.name for subject in memory.read_subjects().subjects]
        ['noor']
        """
        return await self.operate(request or continuity.SubjectsRequest())

    async def read_garden(self, request: continuity.GardenRequest, /) -> continuity.GardenReport:
        """Read the private documents of the scope's conversation, for a named audience.

        >>> diary = elytron.GardenDraft(role="diary", name="monday", text="I like these talks.")
        >>> _ = memory.write(elytron.MemoryWriteRequest(write=elytron.GardenWrite(documents=(diary,))))
        >>> request = elytron.GardenRequest(audience=elytron.GardenAudience.OWNER)
        >>> [document.text for document in memory.read_garden(request).documents]
        ['I like these talks.']
        """
        return await self.operate(request)


class BlockingCandidates(BlockingCalls):
    """The calls about beliefs, blocking until their answer."""

    add_fact = blocking_call(CandidatesFace.add_fact)
    list_candidates = blocking_call(CandidatesFace.list_candidates)
    resolve_candidate = blocking_call(CandidatesFace.resolve_candidate)
    list_facts = blocking_call(CandidatesFace.list_facts)
    get_fact = blocking_call(CandidatesFace.get_fact)
    profile = blocking_call(CandidatesFace.profile)
    change_fact = blocking_call(CandidatesFace.change_fact)
    forget_facts = blocking_call(CandidatesFace.forget_facts)
    set_learning = blocking_call(CandidatesFace.set_learning)
    merge_facts = blocking_call(CandidatesFace.merge_facts)
    read_continuity = blocking_call(CandidatesFace.read_continuity)
    export_continuity = blocking_call(CandidatesFace.export_continuity)
    import_continuity = blocking_call(CandidatesFace.import_continuity)
    read_subjects = blocking_call(CandidatesFace.read_subjects)
    read_garden = blocking_call(CandidatesFace.read_garden)
