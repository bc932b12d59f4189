"""A client of `openai` that remembers, by one line. A server that looks for a name stands for the model."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from openai import OpenAI

import elytron


class ScriptedModel(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = self.rfile.read(int(self.headers["Content-Length"]))
        answer = b'{"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "%s"}}]}'
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer % (b"Petrel." if b"Petrel" in request else b"I do not know."))


with HTTPServer(("127.0.0.1", 0), ScriptedModel) as server, elytron.open("memory:", space="ada") as memory:
    memory.add("My boat is called Petrel.")
    Thread(target=server.handle_request).start()
    with elytron.wrap(OpenAI(base_url=f"http://127.0.0.1:{server.server_port}", api_key="none"), memory) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "What is my boat called?"}])
    print(*(f"{hit.role}: {hit.text}" for hit in memory.list()), sep="\n")
