from elytron_integrations.mem0_memory import AsyncMemory as AsyncMemory
from elytron_integrations.mem0_memory import Memory as Memory
from elytron_integrations.mem0_memory import MemoryClient as MemoryClient
