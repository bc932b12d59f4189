"""A call of a server by the client that openapi-python-client made of its description."""

import sys

from elytron_client import Client
from elytron_client.api.everyday import recall
from elytron_client.api.flat import add, search
from elytron_client.models import AddReport, AddRequest, MemoryRecallReport, MemoryRecallRequest, SearchReport
from elytron_client.models import SearchRequest as Search

with Client(base_url=sys.argv[1]) as client:
    added = add.sync(client=client, body=AddRequest(text="We moved to Lisbon in May."))
    found = search.sync(client=client, body=Search(query="Lisbon"))
    recalled = recall.sync(client=client, body=MemoryRecallRequest(query="Lisbon"))

match added, found, recalled:
    case AddReport(ids=[kept]), SearchReport(hits=[first, *_]), MemoryRecallReport(hits=[best, *_]):
        if not first.id == best.id == kept:
            sys.exit("what was added is not what is found")
    case _:
        sys.exit(f"not answered as described: {added}, {found}, {recalled}")
