"""A LangGraph graph that goes on after a restart, and that looks up what all of its threads know."""

# pyright: reportUnknownMemberType=false

import operator
from tempfile import TemporaryDirectory
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore

import elytron
from elytron_integrations.langgraph import ElytronSaver, ElytronStore


class Chat(TypedDict):
    messages: Annotated[list[str], operator.add]


def answer(state: Chat, *, store: BaseStore) -> Chat:
    return {"messages": [str(item.value["text"]) for item in store.search((), query=state["messages"][-1], limit=1)]}


with TemporaryDirectory() as folder:
    for question in ("Where is the boat key?", "And who drinks tea?"):
        with elytron.open(f"{folder}/memory.db", space="ada") as memory:  # opened twice, as after a restart
            ElytronStore(memory).put(("facts",), "boat", {"text": "The boat key is under the oar."})
            ElytronStore(memory).put(("facts",), "tea", {"text": "Ada drinks green tea."})
            graph = StateGraph(Chat).add_node("answer", answer).add_edge(START, "answer")
            app = graph.compile(checkpointer=ElytronSaver(memory), store=ElytronStore(memory))
            print(app.invoke({"messages": [question]}, {"configurable": {"thread_id": "1"}})["messages"])
