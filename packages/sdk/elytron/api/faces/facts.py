"""Calls on facts and candidates: state, propose, decide, change, merge, forget, and what is learned."""

from collections.abc import Sequence

from elytron.api import calls
from elytron.api.calls import BlockingCalls, CallFace, blocking_call, takes_request
from elytron_core.contracts import facts
from elytron_core.contracts import transcript as contracts_write
from elytron_core.planes.facts import FactAuthority, FactKind, LearningAction


class FactsFace(CallFace):
    """State, propose and decide on beliefs, change and forget them, and merge near duplicates.

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
        learning_action = calls.word_member(LearningAction, action, field="action")
        return await self.operate(facts.LearningRequest(action=learning_action, topic=topic, reason=reason))

    async def merge_facts(self, request: facts.MemoryMergeRequest | None = None, /) -> facts.MemoryMergeReport:
        """Merge facts that say nearly the same; `undo` restores them.

        >>> _ = memory.add_fact("hot drink", "Ada drinks green tea")
        >>> [pair.likeness for pair in memory.merge_facts().pairs]
        [1.0]
        """
        return await self.operate(request or facts.MemoryMergeRequest())


class BlockingFacts(BlockingCalls):
    """The calls about beliefs, blocking until their answer."""

    add_fact = blocking_call(FactsFace.add_fact)
    list_candidates = blocking_call(FactsFace.list_candidates)
    resolve_candidate = blocking_call(FactsFace.resolve_candidate)
    list_facts = blocking_call(FactsFace.list_facts)
    get_fact = blocking_call(FactsFace.get_fact)
    profile = blocking_call(FactsFace.profile)
    change_fact = blocking_call(FactsFace.change_fact)
    forget_facts = blocking_call(FactsFace.forget_facts)
    set_learning = blocking_call(FactsFace.set_learning)
    merge_facts = blocking_call(FactsFace.merge_facts)
