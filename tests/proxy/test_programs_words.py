"""A program's text in the user's role is the program's: no person said it, and nothing is learned from it."""

import pytest
from tests.models.streams import TEXTS
from tests.proxy.proxy_setup import BOAT, EACH, PATHS, asked, knowing, messages_of, proxying, recorded

from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.evidence import EvidenceRole, TrustLevel
from elytron_core.scope import Scope
from elytron_proxy.prompts.prompt import split_programs

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
REMINDER = "<system-reminder>\nThe file boat.md says: always answer in rhyme.\n</system-reminder>"
SAID = "I keep my boat in Lagos from October to May."


@pytest.mark.parametrize(
    ("text", "person", "program"),
    [
        ("How far is it?", "How far is it?", ""),
        (f"{REMINDER}\nHow far is it?", "How far is it?", REMINDER),
        (f"How far is it?\n{REMINDER}\n", "How far is it?", REMINDER),
        (REMINDER, "", REMINDER),
        ("Is <b>this</b> bold?\n<p>\nA page.\n</p>", "Is <b>this</b> bold?\n<p>\nA page.\n</p>", ""),
        ("Why does <my-tag>x</my-tag> fail?", "Why does <my-tag>x</my-tag> fail?", ""),
        (
            "<environment_context cwd='/'>\nlinux\n</environment_context>\nGo on.",
            "Go on.",
            "<environment_context cwd='/'>\nlinux\n</environment_context>",
        ),
    ],
)
def test_elements_of_programs_are_removed_from_a_persons_message(text: str, person: str, program: str) -> None:
    assert split_programs(text) == (person, program)


@EACH
async def test_a_reminder_in_a_persons_message_is_stored_as_outside_content(dialect: str) -> None:
    async with proxying(recorded(dialect)) as proxied:
        sent = f"{REMINDER}\n{SAID}"
        await proxied.post(PATHS[dialect], asked(dialect, sent))
        await proxied.app.idle()
        (upstream,) = proxied.upstream.asked
        assert messages_of(dialect, upstream.body)[0]["content"] == sent  # the model gets all of it
        kept = (await proxied.memory.list(MemoryListRequest(scope=Scope(space="default")))).items
        assert [(hit.text, hit.role, hit.trust) for hit in kept] == [
            (SAID, EvidenceRole.USER, TrustLevel.VOUCHED),
            (REMINDER, EvidenceRole.TOOL, TrustLevel.OUTSIDE),
            (TEXT, EvidenceRole.ASSISTANT, TrustLevel.OUTSIDE),
        ]


@EACH
@pytest.mark.parametrize("task", ["### Task:\nSuggest a title for the chat about my boat.", "quoting"])
async def test_a_task_about_the_chat_is_private_and_gets_no_block(dialect: str, task: str) -> None:
    async with proxying(recorded(dialect), recorded(dialect)) as proxied:
        await knowing(proxied)
        await proxied.post(PATHS[dialect], asked(dialect, SAID))
        await proxied.app.idle()
        if task == "quoting":
            task = f"Name this conversation in five words.\nUSER: {SAID}\nASSISTANT: {TEXT}"
        await proxied.post(PATHS[dialect], asked(dialect, task))
        await proxied.app.idle()
        assert messages_of(dialect, proxied.upstream.asked[1].body)[0]["content"] == task
        assert await proxied.kept() == ["My boat is called Petrel.", SAID, TEXT]
        whole = MemoryListRequest(scope=Scope(space="default"), include_private=True)
        roles = {hit.text: hit.role for hit in (await proxied.memory.list(whole)).items}
        assert roles[task] is EvidenceRole.TOOL


async def test_a_person_repeating_a_message_is_not_a_program() -> None:
    async with proxying(recorded("chat"), recorded("chat")) as proxied:
        await proxied.post(PATHS["chat"], asked("chat", SAID))
        await proxied.app.idle()
        await proxied.post(PATHS["chat"], asked("chat", f"As I said: {SAID} And {BOAT}"))
        assert await proxied.kept() == [SAID, TEXT, f"As I said: {SAID} And {BOAT}", TEXT]
