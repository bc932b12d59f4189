"""A chat loop with memory: recall and project before the model answers, commit the turn after delivery.

The model here is a three-line function, so the example needs no key. The block goes into a message of its own
before the user's, never into the system prompt: it is reference data, and says so in its first line.
"""

import elytron
from elytron import EvidenceRole

SYSTEM = "You are a helpful assistant."


def fake_model(messages: list[dict[str, str]]) -> str:
    """Answer like a model that reads its context: with the remembered line that matches the question's words."""
    question = words(messages[-1]["content"])
    lines = [line for message in messages[1:-1] for line in message["content"].splitlines() if line.startswith("- [")]
    for line in lines:
        said = line.partition("] ")[2]
        if len(question & words(said)) >= 2:
            return f"You told me: {said}."
    return "Noted."


def words(text: str) -> set[str]:
    """Return the longer words of a text."""
    return {word for word in text.lower().strip("?.").split() if len(word) > 4}


def turn(memory: elytron.SyncMemoryRuntime, number: int, said: str) -> None:
    """Answer one message of the user, with memory around the model."""
    block = memory.project(said, max_chars=1_200).system_memory_block
    context = [{"role": "user", "content": block}] if block else []
    answer = fake_model([{"role": "system", "content": SYSTEM}, *context, {"role": "user", "content": said}])
    print(f"Ada:  {said}\nbot:  {answer}\n")
    told = elytron.TurnDraft(
        host_id=f"turn-{number}",  # a retry of the same turn is stored once
        messages=(
            elytron.Message(role=EvidenceRole.USER, text=said, speaker="Ada"),
            elytron.Message(role=EvidenceRole.ASSISTANT, text=answer),
        ),
    )
    memory.write(elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=(told,))))


with elytron.open("memory:", space="ada") as memory:
    turn(memory, 1, "My sister Noor is allergic to peanuts")
    turn(memory, 2, "Book the ferry for Saturday morning")
    turn(memory, 3, "What is my sister allergic to?")

    report = memory.project("sister", max_chars=600)
    print(f"block of {len(report.system_memory_block)} of {report.budget} characters:\n")
    print(report.system_memory_block)
