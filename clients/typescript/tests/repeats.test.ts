/** Repeats, deadlines and unknown answers, against a server that misbehaves as the test says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ConnectOptions, connect, type Memory, Overloaded, Unreachable, Unsupported } from "../src/index.js";
import { pauseMs } from "../src/connection.js";
import { errorOf } from "../src/error_keys.js";
import { answerJson, problem, type ScriptedAnswer, type SentRequest, scriptedServer } from "./scripted_server.js";

const report = { space: "ada", hits: [], ids: [], refused: [] };

async function scripted(
  answer: ScriptedAnswer,
  use: (memory: Memory, requests: SentRequest[]) => Promise<void>,
  options: ConnectOptions = {},
): Promise<void> {
  const server = await scriptedServer(answer);
  try {
    await use(connect(server.url, options), server.requests);
  } finally {
    await server.stop();
  }
}

test("a read is sent up to four times while the server asks for patience", async () => {
  const busy: ScriptedAnswer = (response, _request, number) =>
    number < 4 ? problem(response, 503, "overloaded") : answerJson(response, report);
  await scripted(busy, async (memory, requests) => {
    await memory.recall("safe");
    assert.equal(requests.length, 4);
  });
  await scripted(
    (response) => problem(response, 503, "overloaded"),
    async (memory, requests) => {
      await assert.rejects(memory.recall("safe"), Overloaded);
      assert.equal(requests.length, 4);
    },
  );
});

test("a write without a key is sent once, one under a key again with the same key and body", async () => {
  const flaky: ScriptedAnswer = (response, _request, number) =>
    number % 2 === 1 ? problem(response, 503, "store_busy") : answerJson(response, report);
  await scripted(flaky, async (memory, requests) => {
    await assert.rejects(memory.add("A line."), { key: "store_busy", retryable: true });
    assert.equal(requests.length, 1);
  });
  await scripted(flaky, async (memory, requests) => {
    await memory.add("A line.", {}, { idempotencyKey: "line-1" });
    assert.deepEqual(
      requests.map(({ headers, body }) => [headers["idempotency-key"], body]),
      [
        ["line-1", '{"text":"A line."}'],
        ["line-1", '{"text":"A line."}'],
      ],
    );
  });
});

test("with repeatWrites each write has a key of its own, which stays over its attempts", async () => {
  const flaky: ScriptedAnswer = (response, _request, number) =>
    number === 1 ? problem(response, 503, "store_busy") : answerJson(response, report);
  const use = async (memory: Memory, requests: SentRequest[]) => {
    await memory.add("A line.");
    await memory.add("A line.");
    await memory.operate("embed", {}); // takes no key
    await memory.recall("line");
    const [first, second, third, ...others] = requests.map(({ headers }) => headers["idempotency-key"]);
    assert.match(String(first), /^[0-9a-f]{32}$/);
    assert.deepEqual([first === second, first === third, others], [true, false, [undefined, undefined]]);
  };
  await scripted(flaky, use, { repeatWrites: true });
});

test("a conflict, a refusal and a wrong value are answers, not tried again", async () => {
  for (const [status, code] of [
    [409, "conflict"],
    [403, "permission_refused"],
    [422, "invalid_input"],
  ] as const) {
    await scripted(
      (response) => problem(response, status, code),
      async (memory, requests) => {
        await assert.rejects(memory.recall("safe"), { key: code, status });
        assert.equal(requests.length, 1);
      },
    );
  }
});

test("pauses double, are spread, and follow Retry-After up to five seconds", () => {
  const overloaded = (retryAfter: number) => errorOf("overloaded", "", { retryAfter });
  assert.deepEqual(
    [1, 2, 3, 4].map((attempt) => pauseMs(overloaded(0), attempt, 1)),
    [100, 200, 400, undefined],
  );
  assert.deepEqual(
    [0, 0.5, 1].map((jitter) => pauseMs(overloaded(0), 2, jitter)),
    [100, 150, 200],
  );
  assert.deepEqual(
    [1, 60].map((seconds) => pauseMs(overloaded(seconds), 1, 0)),
    [1050, 5000],
  );
  assert.deepEqual(
    [1, 60].map((seconds) => pauseMs(errorOf("rate_limited", "", { retryAfter: seconds }), 1, 0)),
    [1000, 5000],
  );
  assert.equal(pauseMs(errorOf("conflict", ""), 1, 0), undefined);
});

test("the time of Retry-After is in the error", async () => {
  const limited: ScriptedAnswer = (response) => problem(response, 429, "rate_limited", { "Retry-After": "7" });
  await scripted(limited, async (memory) => {
    await assert.rejects(memory.add("A line."), { name: "RateLimited", retryAfter: 7, retryable: true });
  });
});

test("a signal ends a call with its reason, while it waits for an answer or for a repeat", async () => {
  const reason = new Error("the user left");
  const silent: ScriptedAnswer = () => undefined;
  for (const answer of [silent, (response: Parameters<ScriptedAnswer>[0]) => problem(response, 503, "overloaded")]) {
    await scripted(answer, async (memory, requests) => {
      const controller = new AbortController();
      const call = memory.recall("safe", {}, { signal: controller.signal });
      while (requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
      controller.abort(reason);
      await assert.rejects(call, reason);
      await assert.rejects(memory.recall("safe", {}, { signal: controller.signal }), reason);
    });
  }
});

test("a server that does not answer in time, or is not there, is unreachable", async () => {
  const use = async (memory: Memory) => {
    await assert.rejects(
      memory.add("A line."),
      (error) => error instanceof Unreachable && /no answer in time/.test(error.message),
    );
  };
  await scripted(() => undefined, use, { timeoutMs: 50 });
  const { url, stop } = await scriptedServer(() => undefined);
  await stop();
  await assert.rejects(connect(url).add("A line."), {
    name: "Unreachable",
    key: "unreachable",
    message: /ECONNREFUSED/,
  });
});

test("a connection that breaks in the middle of a report is unreachable", async () => {
  const cut: ScriptedAnswer = (response) => {
    response.writeHead(200, { "Content-Length": "100" });
    response.write('{"space":', () => response.destroy());
  };
  await scripted(cut, async (memory, requests) => {
    await assert.rejects(memory.recall("safe"), Unreachable);
    assert.equal(requests.length, 4);
  });
});

test("a gateway's failure is unreachable, and another program's answer unsupported", async () => {
  const answers: [number, string, typeof Unreachable][] = [
    [502, "<html>", Unreachable],
    [200, "<html>", Unsupported],
    [200, "[1", Unsupported],
    [200, "7", Unsupported],
    [404, "<html>", Unsupported],
    [301, "", Unsupported],
  ];
  for (const [status, body, kind] of answers) {
    const answer: ScriptedAnswer = (response) =>
      response.writeHead(status, { Location: "http://localhost:1/" }).end(body);
    await scripted(answer, async (memory) => {
      await assert.rejects(memory.add("A line."), kind);
    });
  }
});

test("a report with more hits than were requested is unsupported", async () => {
  const answer: ScriptedAnswer = (response) => answerJson(response, { ...report, hits: [{}, {}] });
  await scripted(answer, async (memory) => {
    await assert.rejects(memory.recall("safe", { limit: 1 }), Unsupported);
  });
});

test("a report of more than 64 MiB is not read to its end", async () => {
  let sent = 0;
  const endless: ScriptedAnswer = (response) => {
    const chunk = "a".repeat(1024 * 1024);
    const write = () => {
      while (!response.destroyed && response.write(chunk)) sent += 1;
    };
    response.on("drain", write);
    write();
  };
  await scripted(endless, async (memory) => {
    await assert.rejects(memory.recall("safe"), Unsupported);
  });
  assert.ok(sent < 200, `${sent} MiB`);
});

test("calls name the space that a memory is bound to, unless they name another", async () => {
  await scripted(
    (response) => answerJson(response, report),
    async (memory, requests) => {
      const ada = memory.withSpace("ada");
      await ada.recall("safe");
      await ada.recall("safe", { scope: { space: "bob" } });
      await ada.project("safe", { scope: { conversation: "boat" } });
      await ada.add("A line.");
      await memory.recall("safe");
      assert.deepEqual(
        requests.map(({ body }) => JSON.parse(body)),
        [
          { query: "safe", scope: { space: "ada" } },
          { query: "safe", scope: { space: "bob" } },
          { query: "safe", scope: { space: "ada", conversation: "boat" } },
          { text: "A line.", space: "ada" },
          { query: "safe" },
        ],
      );
    },
  );
});
