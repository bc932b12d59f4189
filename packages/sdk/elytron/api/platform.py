"""The calls that ask what a memory can do, and which spaces it has."""

from elytron.api.base import Face
from elytron_core.contracts.admin import platform, spaces


class PlatformFace(Face):
    """Say what can be done here, and for whom there is memory."""

    async def capabilities(
        self, request: platform.MemoryCapabilitiesRequest | None = None, /
    ) -> platform.MemoryCapabilityCatalog:
        """Say what this memory can do, and what keeps it from the rest."""
        request = request or platform.MemoryCapabilitiesRequest()
        return await self.operate(request, platform.MemoryCapabilityCatalog)

    async def spaces(
        self, request: spaces.MemorySpacesRequest | None = None, /, *, limit: int = 100, cursor: str | None = None
    ) -> spaces.MemorySpacesReport:
        """List the spaces of the store, by name, with what they hold of conversations."""
        request = request or spaces.MemorySpacesRequest(limit=limit, cursor=cursor)
        return await self.operate(request, spaces.MemorySpacesReport)
