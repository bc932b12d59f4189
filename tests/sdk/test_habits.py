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
    "from elytron import Memory": "use elytron.open",
    "from elytron import MemoryClient": "use elytron.connect",
    "from elytron import AsyncMemory": "use await ",
    "from elytron import AsyncMemoryClient": "use await ",
    "from elytron import Client": "use elytron.connect",
    "from elytron import Elytron": "use elytron.open",
    "from elytron import MemoryStore": "use elytron.open",
    "from elytron import InMemoryStore": "use elytron.open",
    "from elytron import Zep": "use elytron.connect",
    "from elytron import AsyncZep": "use await ",
    "from elytron import Letta": "use elytron.connect",
    "from elytron import create_memory_manager": "use elytron.open",
    "elytron.Memory()": "use elytron.open",
    "elytron.Memory.from_config({})": "use elytron.open",
    "elytron.MemoryClient(api_key='x')": "use elytron.connect",
    "elytron.Client(base_url='http://127.0.0.1:1')": "use elytron.connect",
    "elytron.open(path='h.db')": "pass it first",
    "with elytron.open('postgresql://u@h/d'): pass": "provide a key",
    "with elytron.open('redis://localhost'): pass": "use a file",
    "with elytron.open('http://127.0.0.1:1'): pass": "use elytron.connect",
    "with elytron.open('https://example.org'): pass": "use elytron.connect",
    "elytron.open(user_id='ada')": "use space=",
    "elytron.open('memory:', user_id='ada')": "use space=",
    "elytron.open(config={})": "leave it out",
    "elytron.load('h.db')": "use elytron.open",
    "elytron.init('h.db')": "use elytron.open",
    "m.add('I like tea', infer=False)": "leave it out",
    "m.add(data='I like tea')": "use messages=",
    "m.add(text='I like tea')": "use messages=",
    "m.add(content='I like tea')": "use messages=",
    "m.add('I like tea', session_id='s')": "use conversation=",
    "m.add('I like tea', thread_id='s')": "use conversation=",
    "m.add('I like tea', timestamp=1750000000)": "use at=",
    "m.add('I like tea', namespace=('a',))": "use user_id=",
    "m.add('I like tea')['results']": "use .ids",
    "m.add('I like tea')['id']": "use .ids",
    "m.add_memory('I like tea')": "use add",
    "m.add_messages([{'role': 'user', 'content': 'I like tea'}])": "use add",
    "m.save('I like tea')": "use add",
    "m.remember('I like tea')": "use add",
    "m.insert('I like tea')": "use add",
    "m.put(('a',), 'k', {'v': 1})": "use put_record",
    "m.aadd('I like tea')": "use add",
    "m.retain('I like tea')": "use add",
    "m.ingest('I like tea')": "use add",
    "m.create_memory('I like tea')": "use add",
    "m.add_episode(name='a', episode_body='I like tea')": "use add",
    "m.search('tea')['results']": "use .hits",
    "m.search('tea')[0].memory": "use .text",
    "m.search('tea')[0]['memory']": "use .text",
    "m.search('tea', k=3)": "use limit=",
    "m.search('tea', n_results=3)": "use limit=",
    "m.search('tea', filter={'a': 'b'})": "use filters=",
    "m.search('tea', where={'a': 'b'})": "use filters=",
    "m.search('tea', rerank=True)": "leave it out",
    "m.query('tea')": "use recall",
    "m.retrieve('tea')": "use recall",
    "m.similarity_search('tea')": "use recall",
    "m.find('tea')": "use recall",
    "m.ask('tea')": "use recall",
    "m.get_context('tea')": "use project",
    "m.get_relevant_memories('tea')": "use recall",
    "m.load_memory_variables({})": "use project",
    "m.get(key)['memory']": "use .text",
    "m.get_all()['results']": "use .items",
    "m.get_memory(key)": "use get",
    "m.list_memories()": "use list",
    "m.update(memory_id=key, data='I like coffee')": "use text=",
    "m.update_memory(key, 'I like coffee')": "use update",
    "m.edit(key, 'I like coffee')": "use update",
    "m.remove(key)": "use delete",
    "m.delete_memory(key)": "use delete",
    "m.reset()": "use erase(whole_space=...)",
    "m.clear()": "use erase(whole_space=...)",
    "m.count()": "use inspect",
    "m.users()": "use spaces",
    "m.flush()": "use maintain",
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
