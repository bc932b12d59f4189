"""A storage of CrewAI's memory: its records are searched by vectors, and by recall in words."""

from crewai.memory.types import MemoryRecord

import elytron
from elytron_integrations.crewai import ElytronStorage

with elytron.open("memory:", space="ada") as memory:
    storage = ElytronStorage(memory)  # for crewai.Memory(storage=storage)
    boat = MemoryRecord(content="Ada's boat is called Petrel.", scope="/crew/sea", embedding=[1.0, 0.0])
    bicycle = MemoryRecord(content="Ada's bicycle is green.", scope="/crew/land", embedding=[0.0, 1.0])
    storage.save([boat, bicycle])
    for record, score in storage.search([0.9, 0.1], limit=1):
        print(record.content, round(score, 2))
    print(memory.recall("what is the boat called?", filters={"planes": ["records"]})[0].text)
    print(storage.list_scopes("/crew"), storage.delete(record_ids=[boat.id]), storage.count())
