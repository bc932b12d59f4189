/** The client in a page of headless Chromium that is of another origin than the memory. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { post, type RunningServer, serve } from "./serving.js";

const root = join(import.meta.dirname ?? "", "..", "..");
const flags =
  "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking " +
  "--disable-component-update --disable-sync";
let memory: RunningServer;
const servers: Server[] = [];

before(async () => {
  memory = await serve("--operator-key");
});
after(async () => {
  for (const server of servers) server.close().closeAllConnections();
  await memory.stop();
});

async function listen(server: Server): Promise<string> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Serves the page and the built client, and resolves `report` with what the page posts. */
function pageServer() {
  let resolveReport: (text: string) => void;
  const report = new Promise<string>((resolve) => (resolveReport = resolve));
  const server = createServer(async (incoming, response) => {
    const path = new URL(incoming.url ?? "", "http://page").pathname;
    if (path === "/report") {
      let text = "";
      for await (const chunk of incoming) text += String(chunk);
      response.end();
      resolveReport(text);
    } else if (path === "/page" || /^\/dist\/[\w/]+\.js$/.test(path)) {
      const file = path === "/page" ? "tests/page.html" : path.slice(1);
      const type = path === "/page" ? "text/html" : "text/javascript";
      response.writeHead(200, { "Content-Type": type }).end(await readFile(join(root, file)));
    } else response.writeHead(404).end();
  });
  return { server, report };
}

/** Passes requests of pages of `origin` on to the memory, with the headers that the documentation names. */
function corsProxy(origin: () => string): Server {
  const preflight = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID",
  };
  return createServer((incoming, response) => {
    const cors = {
      "Access-Control-Allow-Origin": origin(),
      "Access-Control-Expose-Headers": "ETag, Retry-After, X-Archive-Contents",
    };
    if (incoming.method === "OPTIONS") {
      response.writeHead(204, { ...cors, ...preflight }).end();
      return;
    }
    const { origin: _origin, host: _host, ...headers } = incoming.headers;
    const passed = request(memory.url + incoming.url, { method: incoming.method ?? "GET", headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...cors });
      answer.pipe(response);
    });
    response.on("close", () => passed.destroy());
    incoming.pipe(passed.on("error", () => response.destroy()));
  });
}

test(
  "a page of another origin adds, recalls, follows, exports and reads errors through CORS",
  { timeout: 60_000 },
  async () => {
    const operatorKey = memory.printed["operator_key"] as string;
    const { key } = await post(`${memory.url}/v1/access`, { kind: "user", label: "page", space: "ada" }, operatorKey);
    const { server, report } = pageServer();
    const page = await listen(server);
    const proxy = await listen(corsProxy(() => page));
    const query = new URLSearchParams({ memory: proxy, closed: memory.url, key: key as string });
    const options = [
      ...flags.split(" "),
      `--user-data-dir=${join(memory.folder, "chromium")}`,
      `${page}/page?${query}`,
    ];
    const browser = spawn("chromium", options, { stdio: "ignore" });
    const failed = new Promise<string>((_resolve, reject) => {
      browser.once("error", reject);
      browser.once("exit", (code) => reject(new Error(`Chromium ended with ${code}`)));
    });
    const ended = new Promise((resolve) => browser.once("close", resolve));
    try {
      assert.deepEqual(JSON.parse(await Promise.race([report, failed])), {
        repeated: true,
        texts: ["The boat key is under the oar."],
        event: 1,
        serial: "9007199254740993",
        etag: true,
        imported: true,
        missing: ["not_found", 404],
        foreign: "permission_refused",
        withoutCors: "unreachable",
      });
    } finally {
      browser.kill();
      failed.catch(() => undefined);
      await ended;
    }
  },
);
