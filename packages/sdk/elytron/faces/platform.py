"""The calls that ask what a memory can do."""

from elytron.faces.face import Face
from elytron_core.contracts import platform


class PlatformFace(Face):
    """Say what can be done here."""

    async def capabilities(
        self, request: platform.MemoryCapabilitiesRequest | None = None, /
    ) -> platform.MemoryCapabilityCatalog:
        """Say what this memory can do, and what keeps it from the rest."""
        request = request or platform.MemoryCapabilitiesRequest()
        return await self.operate(request, platform.MemoryCapabilityCatalog)
