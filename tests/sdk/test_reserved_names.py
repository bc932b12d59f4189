"""Reserved space names cannot be used for a memory, in process or remotely."""

import pytest

import elytron
from elytron_core.errors import PermissionRefused
from elytron_core.ids import SYSTEM_SPACE

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", [SYSTEM_SPACE, "elytron:anything", "ELYTRON:x"])
async def test_no_memory_can_have_a_system_name(name: str) -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(PermissionRefused, match="system"):
            await memory.add("Ada likes tea.", user_id=name)
        with pytest.raises(PermissionRefused, match="system"):
            await memory.recall("tea", user_id=name)
        assert list(await memory.context.store.spaces(limit=10)) == []
