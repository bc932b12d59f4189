"""Server-sent events, read as the standard says: fields line by line, an empty line ends an event."""

from collections.abc import AsyncIterable, AsyncIterator

from pydantic import TypeAdapter, ValidationError

from elytron.remote.wire import Begun, told_of
from elytron_core.contracts.admin.events import StreamItem
from elytron_core.errors import Unsupported

_ITEM: TypeAdapter[StreamItem] = TypeAdapter(StreamItem)


async def items(lines: AsyncIterable[str], /) -> AsyncIterator[StreamItem | Begun]:
    """Yield the entries and gaps in `lines`, and an id that comes alone; comments are heartbeats.

    Raises the error of an `error` event.
    """
    name, data, place = "", list[str](), ""
    async for line in lines:
        if line:
            field, _, value = line.partition(":")
            match field:
                case "event":
                    name = value.removeprefix(" ")
                case "data":
                    data.append(value.removeprefix(" "))
                case "id":
                    place = value.removeprefix(" ")
                case _:
                    pass
            continue
        if data:
            yield _item(name, "\n".join(data).encode())
        elif place:
            yield Begun(place)
        name, data, place = "", [], ""


def _item(name: str, data: bytes) -> StreamItem:
    if name == "error" and (error := told_of(data)) is not None:
        raise error
    try:
        return _ITEM.validate_json(data, strict=True)
    except ValidationError:
        raise Unsupported("the server sent an event that this version does not know: use the same version") from None
