"""Files that hold procedures: Markdown with front matter, a JSON list or object, or JSON Lines."""

from collections.abc import Iterator

from elytron_adapter.codec import decode_as
from elytron_cli.input.values import valid
from elytron_core import strict_json
from elytron_core.canonical import canonical_bytes
from elytron_core.contracts.conversation.write import RuntimeSkillWrite
from elytron_core.errors import InvalidJson, UnreadableFile
from elytron_core.policy.skills import front_matter


def skill_writes(name: str, text: str, /) -> Iterator[RuntimeSkillWrite]:
    """Yield the procedures in the file `name` with this text. Raises UnreadableFile, InvalidInput."""
    document = front_matter.read(text)
    if document is not None:
        yield _from_markdown(name, document)
    elif text.lstrip().startswith(("[", "{")):
        yield from _from_json(name, text)
    else:
        problem = "is neither Markdown with front matter (name, topic, title, summary) nor JSON"
        raise UnreadableFile(name=name, problem=problem)


def _from_markdown(name: str, document: front_matter.Document) -> RuntimeSkillWrite:
    fields = document.fields
    missing = [field for field in ("name", "topic", "title") if not fields.get(field)]
    if missing:
        way_out = "is no runtime skill: a SKILL.md is read in place, see --agent-skill-dirs"
        raise UnreadableFile(name=name, problem=f"has no {missing[0]} in its front matter and {way_out}")
    return valid(
        RuntimeSkillWrite,
        name=fields["name"],
        topic=fields["topic"],
        title=fields["title"],
        summary=fields.get("summary", ""),
        content=document.body.strip(),
        citations=tuple(fields.get("citations", "").split()),
    )


def _from_json(name: str, text: str) -> Iterator[RuntimeSkillWrite]:
    """Yield the objects of a JSON list, of one object, or of one object a line."""
    data = text.encode("utf-8")
    try:
        whole = strict_json.parse(data)
    except InvalidJson:
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        yield from (decode_as(RuntimeSkillWrite, line) for line in lines)
        return
    items = whole if isinstance(whole, list) else [whole]
    if not all(isinstance(item, dict) for item in items):
        raise UnreadableFile(name=name, problem="is not a list of objects")
    yield from (decode_as(RuntimeSkillWrite, canonical_bytes(item)) for item in items)
