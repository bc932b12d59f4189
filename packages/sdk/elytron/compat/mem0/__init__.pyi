from elytron_integrations.mem0.memory import AsyncMemory as AsyncMemory
from elytron_integrations.mem0.memory import AsyncMemoryClient as AsyncMemoryClient
from elytron_integrations.mem0.memory import Memory as Memory
from elytron_integrations.mem0.memory import MemoryClient as MemoryClient
