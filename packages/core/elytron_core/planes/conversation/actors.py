"""Actors of a turn. Their parts are stored side by side and never taken for one another."""

from elytron_core.model import Value
from elytron_core.scope import Name


class ActorAttribution(Value):
    """Actors of a turn: speaker, subject, actor, mounted owner, agent, and the reason.

    Each is the host's own id; a part that is not known stays empty.
    """

    speaker_id: Name | None = None
    speaker_kind: Name | None = None
    """Kind of the speaker, in the host's words: subject, human, assistant, tool."""
    subject_id: Name | None = None
    actor_subject_id: Name | None = None
    mounted_subject_id: Name | None = None
    agent_id: Name | None = None
    triggered_by: Name | None = None

    def speaking(self, speaker: str | None, /) -> "ActorAttribution":
        """Return the attribution of a message of this turn that `speaker` said; the other parts are the turn's."""
        return self if speaker is None else self.model_copy(update={"speaker_id": speaker})

    @property
    def outward(self) -> "ActorAttribution":
        """The part that a conversation's participants may know: the speaker."""
        return ActorAttribution(speaker_id=self.speaker_id, speaker_kind=self.speaker_kind)
