"""For mem0 users: the same names and ids. A user is a memory space, a run is a conversation."""

import elytron
from elytron import ElytronError

with elytron.open("memory:", space=None) as memory:
    memory.add(
        [
            {"role": "user", "content": "I am vegetarian, and I never eat coriander."},
            {"role": "assistant", "content": "Noted: vegetarian, no coriander."},
        ],
        user_id="ada",
        run_id="dinner",
        metadata={"source": "chat"},
    )
    memory.add("I eat everything.", user_id="grace")

    for hit in memory.search("What does the user eat?", user_id="ada").hits:
        print(f"ada:   {hit.text}")

    everything = memory.get_all(user_id="ada").items
    print(f"ada has {len(everything)} memories, the first under id {everything[0].id}")

    memory.delete(everything[1].id, user_id="ada")
    print(f"after delete: {len(memory.get_all(user_id='ada').items)}")

    # Omitting an argument never clears everything.
    try:
        memory.delete_all()
    except ElytronError as error:
        print(f"refused ({error.key}): {error}")

    memory.delete_all(user_id="ada")
    print("ada:  ", memory.search("coriander", user_id="ada").outcome)
    print("grace:", memory.search("eat", user_id="grace").hits[0].text)
