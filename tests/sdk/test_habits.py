"""What users of other memories write first works, or is answered with the word to use here."""

import re
from pathlib import Path

import pytest

import elytron

WORKS = (
    "elytron.__version__",
    "elytron.connect",
    "elytron.open()",
    "with elytron.open(':memory:'): pass",
    "with elytron.open(f'sqlite://{folder}/h.db'): pass",
    "m.add('I like tea', user_id='ada')",
    "m.add([{'role': 'user', 'content': 'I like tea'}], user_id='ada')",
    "m.add({'role': 'user', 'content': 'I like tea'})",
    "m.add(messages=[{'role': 'user', 'content': 'I like tea'}], run_id='r')",
    "m.add('I like tea', metadata={'a': 'b'})",
    "m.add('I like tea', tags=['a'])",
    "m.add('I like tea').ids",
    "m.add_fact('drink', 'tea')",
    "m.search('tea', user_id='ada')",
    "m.search('tea')[0]",
    "m.search('tea')[0].score",
    "m.search('tea', limit=3)",
    "m.search('tea', top_k=3)",
    "m.search('tea', threshold=0.1)",
    "m.search('tea', min_score=0.1)",
    "m.search('tea', filters={'AND': [{'user_id': 'ada'}]})",
    "m.search(query='tea')",
    "len(m.search('tea'))",
    "m.get(key)",
    "m.get(memory_id=key)",
    "m.get_all(user_id='ada')",
    "m.history(key)",
    "m.update(key, 'I like coffee')",
    "m.delete(key)",
    "m.delete(memory_id=key)",
    "m.delete_all(user_id='ada')",
    "m.close()",
)
ANSWERED = {
    "from elytron import Memory": "say elytron.open",
    "from elytron import MemoryClient": "say elytron.connect",
    "from elytron import AsyncMemory": "say await ",
    "from elytron import AsyncMemoryClient": "say await ",
    "from elytron import Client": "say elytron.connect",
    "from elytron import Elytron": "say elytron.open",
    "from elytron import MemoryStore": "say elytron.open",
    "from elytron import InMemoryStore": "say elytron.open",
    "from elytron import Zep": "say elytron.connect",
    "from elytron import AsyncZep": "say await ",
    "from elytron import Letta": "say elytron.connect",
    "from elytron import create_memory_manager": "say elytron.open",
    "elytron.Memory()": "say elytron.open",
    "elytron.Memory.from_config({})": "say elytron.open",
    "elytron.MemoryClient(api_key='x')": "say elytron.connect",
    "elytron.Client(base_url='http://127.0.0.1:1')": "say elytron.connect",
    "elytron.open(path='h.db')": "say it first",
    "with elytron.open('postgresql://u@h/d'): pass": "give a key",
    "with elytron.open('redis://localhost'): pass": "say a file",
    "with elytron.open('http://127.0.0.1:1'): pass": "say elytron.connect",
    "with elytron.open('https://example.org'): pass": "say elytron.connect",
    "elytron.open(user_id='ada')": "say space=",
    "elytron.open('memory:', user_id='ada')": "say space=",
    "elytron.open(config={})": "leave it out",
    "elytron.load('h.db')": "say elytron.open",
    "elytron.init('h.db')": "say elytron.open",
    "m.add('I like tea', infer=False)": "leave it out",
    "m.add(data='I like tea')": "say messages=",
    "m.add(text='I like tea')": "say messages=",
    "m.add(content='I like tea')": "say messages=",
    "m.add('I like tea', session_id='s')": "say conversation=",
    "m.add('I like tea', thread_id='s')": "say conversation=",
    "m.add('I like tea', timestamp=1750000000)": "say at=",
    "m.add('I like tea', namespace=('a',))": "say user_id=",
    "m.add('I like tea')['results']": "say .ids",
    "m.add('I like tea')['id']": "say .ids",
    "m.add_memory('I like tea')": "say add",
    "m.add_messages([{'role': 'user', 'content': 'I like tea'}])": "say add",
    "m.save('I like tea')": "say add",
    "m.remember('I like tea')": "say add",
    "m.insert('I like tea')": "say add",
    "m.put(('a',), 'k', {'v': 1})": "say put_record",
    "m.aadd('I like tea')": "say add",
    "m.retain('I like tea')": "say add",
    "m.ingest('I like tea')": "say add",
    "m.create_memory('I like tea')": "say add",
    "m.add_episode(name='a', episode_body='I like tea')": "say add",
    "m.search('tea')['results']": "say .hits",
    "m.search('tea')[0].memory": "say .text",
    "m.search('tea')[0]['memory']": "say .text",
    "m.search('tea', k=3)": "say limit=",
    "m.search('tea', n_results=3)": "say limit=",
    "m.search('tea', filter={'a': 'b'})": "say filters=",
    "m.search('tea', where={'a': 'b'})": "say filters=",
    "m.search('tea', rerank=True)": "leave it out",
    "m.query('tea')": "say recall",
    "m.retrieve('tea')": "say recall",
    "m.similarity_search('tea')": "say recall",
    "m.find('tea')": "say recall",
    "m.ask('tea')": "say recall",
    "m.get_context('tea')": "say project",
    "m.get_relevant_memories('tea')": "say recall",
    "m.load_memory_variables({})": "say project",
    "m.get(key)['memory']": "say .text",
    "m.get_all()['results']": "say .items",
    "m.get_memory(key)": "say get",
    "m.list_memories()": "say list",
    "m.update(memory_id=key, data='I like coffee')": "say text=",
    "m.update_memory(key, 'I like coffee')": "say update",
    "m.edit(key, 'I like coffee')": "say update",
    "m.remove(key)": "say delete",
    "m.delete_memory(key)": "say delete",
    "m.reset()": "say erase(whole_space=...)",
    "m.clear()": "say erase(whole_space=...)",
    "m.count()": "say inspect",
    "m.users()": "say spaces",
    "m.flush()": "say maintain",
}
"""Code, and what its error says."""


def run(code: str, folder: Path) -> None:
    """Run a line beside a memory `m` that holds the message `key`."""
    with elytron.open("memory:", space="ada") as memory:
        (key,) = memory.add("I like tea").ids
        exec(code, {"elytron": elytron, "m": memory, "key": key, "folder": folder})


@pytest.mark.parametrize("code", WORKS)
def test_a_habit_works(code: str, tmp_path: Path) -> None:
    run(code, tmp_path)


@pytest.mark.parametrize("code", ANSWERED)
def test_a_habit_is_answered_with_the_word_to_use(code: str, tmp_path: Path) -> None:
    expected = (AttributeError, ImportError, TypeError, elytron.ElytronError)
    with pytest.raises(expected, match=re.escape(ANSWERED[code])):
        run(code, tmp_path)
