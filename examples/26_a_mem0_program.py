"""A program that was written for mem0: only its import was changed."""

from elytron.compat.mem0 import Memory

memory = Memory.from_config({"vector_store": {"provider": "elytron", "config": {"path": "memory:"}}})
memory.add(
    [
        {"role": "user", "content": "I am vegetarian, and I never eat coriander."},
        {"role": "assistant", "content": "Noted: vegetarian, no coriander."},
    ],
    user_id="ada",
    metadata={"source": {"app": "chat"}},
)
memory.add("I eat everything.", user_id="grace")

for result in memory.search("What does the user not eat?", filters={"user_id": "ada"}, top_k=2)["results"]:
    print(f"ada:   {result['memory']} ({result['score']:.2f})")
for result in memory.get_all(user_id="grace")["results"]:
    print(f"grace: {result['memory']}")
memory.close()
