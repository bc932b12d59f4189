/** The middleware and the tools with the real AI SDK, a scripted model and a real server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { generateText, stepCountIs, streamText, wrapLanguageModel } from "ai";
import * as aiTest from "ai/test";
import { memoryMiddleware, memoryTools, type TurnOptions } from "../src/ai.js";
import { connect, type ElytronError, type Memory } from "../src/index.js";
import { type RunningServer, serve } from "./serving.js";

let server: RunningServer;
let memory: Memory;

before(async () => {
  server = await serve("--development");
  memory = connect(server.url);
});
after(() => server.stop());

type WrappedModel = Parameters<typeof wrapLanguageModel>[0]["model"];
interface ModelStep {
  text?: string;
  /** The stream stays open behind the text. */
  isOpen?: boolean;
  toolCall?: { toolName: string; input: object };
}
type ShownPrompt = { role: string; content: string | { type: string; text?: string }[] }[];

/** Returns a model of whichever version of the SDK is installed, which answers with `steps` in turn. */
function scriptedModel(...steps: ModelStep[]) {
  const prompts: ShownPrompt[] = [];
  const options: Record<string, unknown>[] = [];
  const nextStep = (params: { prompt: unknown; providerOptions?: unknown }) => {
    prompts.push(params.prompt as ShownPrompt);
    options.push(params.providerOptions as Record<string, unknown>);
    const { text, toolCall, isOpen }: ModelStep = steps[prompts.length - 1] ?? { text: "Nothing more." };
    const unified = toolCall ? "tool-calls" : "stop";
    return { text, toolCall, isOpen, finishReason: { unified, raw: undefined }, usage };
  };
  const call = (toolCall: ModelStep["toolCall"]) =>
    toolCall
      ? [
          {
            type: "tool-call",
            toolCallId: "call-1",
            toolName: toolCall.toolName,
            input: JSON.stringify(toolCall.input),
          },
        ]
      : [];
  const doGenerate = async (params: { prompt: unknown }) => {
    const { text, toolCall, isOpen: _isOpen, ...rest } = nextStep(params);
    return { ...rest, content: [...(text ? [{ type: "text", text }] : []), ...call(toolCall)], warnings: [] };
  };
  const doStream = async (params: { prompt: unknown }) => {
    const { text = "", toolCall, isOpen, ...rest } = nextStep(params);
    const deltas = text.split(/(?<= )/).map((delta) => ({ type: "text-delta", id: "1", delta }));
    const parts = [{ type: "text-start", id: "1" }, ...deltas, { type: "text-end", id: "1" }, ...call(toolCall)];
    const start = (controller: ReadableStreamDefaultController<object>) => {
      for (const part of parts) controller.enqueue(part);
      if (isOpen) return;
      controller.enqueue({ type: "finish", ...rest });
      controller.close();
    };
    return { stream: new ReadableStream({ start }) };
  };
  const models = aiTest as unknown as Record<string, new (calls: object) => WrappedModel>;
  const MockModel = models["MockLanguageModelV4"] ?? models["MockLanguageModelV3"];
  assert.ok(MockModel);
  return { model: new MockModel({ doGenerate, doStream }), prompts, options };
}

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

const textOf = (prompt: ShownPrompt | undefined) =>
  (prompt ?? []).map(({ content }) =>
    typeof content === "string" ? content : content.map(({ text }) => text ?? "").join(""),
  );

const elytron = (options: TurnOptions) => ({ providerOptions: { elytron: { ...options } } });

async function storedTexts(space: string, conversation: string): Promise<string[]> {
  const { turns } = await memory.withSpace(space).turns(conversation);
  return turns.flatMap(({ messages }) => messages.map(({ role, text }) => `${role}: ${text}`));
}

test("a block goes before the question, and the turn is stored once its answer ends", async () => {
  await memory.withSpace("ada").add("The boat key is under the oar.", { speaker: "Ada" });
  const { model, prompts, options } = scriptedModel({ text: "Under the oar." });
  const middleware = memoryMiddleware(memory);
  const prompt = "Where is the boat key?";
  await generateText({
    model: wrapLanguageModel({ model, middleware }),
    system: "Be brief.",
    prompt,
    ...elytron({ space: "ada", conversation: "boat" }),
  });
  const [system, block, question] = textOf(prompts[0]);
  assert.deepEqual(
    [system, question, prompts[0]?.map(({ role }) => role)],
    ["Be brief.", prompt, ["system", "user", "user"]],
  );
  assert.match(block ?? "", /under the oar/);
  assert.deepEqual(options, [{}]); // the model's provider sees nothing of the scope
  await middleware.settled();
  assert.deepEqual(await storedTexts("ada", "boat"), [`user: ${prompt}`, "assistant: Under the oar."]);
});

test("a stream passes unchanged and is stored when it finishes", async () => {
  const { model } = scriptedModel({ text: "The ferry leaves at six." });
  const middleware = memoryMiddleware(memory.withSpace("stream"));
  const wrapped = wrapLanguageModel({ model, middleware });
  const call = { prompt: "When does the ferry leave?", ...elytron({ conversation: "trip", speaker: "Noor" }) };
  const result = streamText({ model: wrapped, ...call });
  const deltas: string[] = [];
  for await (const delta of result.textStream) deltas.push(delta);
  assert.deepEqual(deltas, ["The ", "ferry ", "leaves ", "at ", "six."]);
  await middleware.settled();
  assert.deepEqual(await storedTexts("stream", "trip"), [
    "user: When does the ferry leave?",
    "assistant: The ferry leaves at six.",
  ]);
});

test("a turn with tools shows one block in all its steps and is stored once, as resting on outside content", async () => {
  const space = memory.withSpace("tools");
  await space.add("The boat key is under the oar.", { speaker: "Ada" });
  const toolCall = { toolName: "memory_search", input: { query: "boat key" } };
  const { model, prompts } = scriptedModel({ toolCall }, { text: "Under the oar." });
  const middleware = memoryMiddleware(space);
  const result = await generateText({
    model: wrapLanguageModel({ model, middleware }),
    prompt: "Where is the boat key?",
    tools: memoryTools(space),
    stopWhen: stepCountIs(3),
    ...elytron({ conversation: "boat" }),
  });
  const [output] = result.steps.flatMap(({ toolResults }) => toolResults.map((each) => each.output)) as {
    text: string;
  }[][];
  assert.deepEqual(
    output?.map(({ text }) => text),
    ["The boat key is under the oar."],
  );
  const blocks = prompts.map((prompt) => textOf(prompt)[0]);
  assert.deepEqual([blocks.length, blocks[0] === blocks[1]], [2, true]);
  await middleware.settled();
  assert.deepEqual(await storedTexts("tools", "boat"), ["user: Where is the boat key?", "assistant: Under the oar."]);
  const { hits } = await space.recall("oar", { filters: { conversations: ["boat"] } });
  assert.deepEqual(
    hits.filter(({ role }) => role === "assistant").map(({ trust }) => trust),
    ["outside"],
  );
});

test("a tool stores what the model was asked to remember, as the model's words", async () => {
  const space = memory.withSpace("remembered");
  const toolCall = { toolName: "memory_add", input: { text: "Ada's boat is called Petrel." } };
  const { model } = scriptedModel({ toolCall }, { text: "Done." });
  await generateText({
    model,
    prompt: "Remember: my boat is called Petrel.",
    tools: memoryTools(space),
    stopWhen: stepCountIs(2),
  });
  const { hits } = await space.recall("boat");
  assert.deepEqual(
    hits.map(({ role, text }) => [role, text]),
    [["assistant", "Ada's boat is called Petrel."]],
  );
});

test("a space per call is a wall, and a misspelt option is refused", async () => {
  await memory.withSpace("grace").add("The safe opens with 4417.");
  const { model, prompts } = scriptedModel({ text: "I do not know." });
  const wrapped = wrapLanguageModel({ model, middleware: memoryMiddleware(memory) });
  await generateText({ model: wrapped, prompt: "What opens the safe?", ...elytron({ space: "linus", store: false }) });
  assert.ok(!JSON.stringify(prompts).includes("4417"));
  assert.ok(!(await memory.spaces()).spaces.some(({ space }) => space === "linus"));
  for (const options of [{ user: "ada" }, { space: 7 }, { space: "" }, { constructor: "a" }]) {
    const call = generateText({ model: wrapped, prompt: "?", providerOptions: { elytron: options } });
    await assert.rejects(call, TypeError);
  }
});

test("a turn with an id is stored once", async () => {
  const space = memory.withSpace("ids");
  const { model } = scriptedModel({ text: "Yes." }, { text: "Yes." });
  const middleware = memoryMiddleware(space);
  const wrapped = wrapLanguageModel({ model, middleware });
  for (let repeat = 0; repeat < 2; repeat += 1) {
    await generateText({ model: wrapped, prompt: "Is it?", ...elytron({ conversation: "c", turnId: "turn-1" }) });
    await middleware.settled();
  }
  assert.deepEqual(await storedTexts("ids", "c"), ["user: Is it?", "assistant: Yes."]);
});

test("a memory that fails or is late never fails the call, and says so", async () => {
  const away = connect("http://127.0.0.1:1", { space: "ada" });
  const silent = connect(server.url, {
    fetch: (_input, init) =>
      new Promise((_resolve, reject) => {
        init?.signal?.addEventListener("abort", () => reject(init.signal?.reason));
      }),
  });
  for (const failing of [away, silent]) {
    const errors: ElytronError[] = [];
    const middleware = memoryMiddleware(failing, { waitMs: 30, onError: (error) => errors.push(error) });
    const { model } = scriptedModel({ text: "Hello." });
    const call = { prompt: "Hello?", ...elytron({ store: false }) };
    const { text } = await generateText({ model: wrapLanguageModel({ model, middleware }), ...call });
    assert.deepEqual([text, errors.map(({ key }) => key)], ["Hello.", ["unreachable"]]);
  }
});

test("a space that is refused for the block and for the turn is reported once", async () => {
  const refusal = { code: "permission_refused", detail: "this key opens another space", retryable: false };
  const refusing = connect(server.url, {
    fetch: () => Promise.resolve(new Response(JSON.stringify(refusal), { status: 403 })),
  });
  const errors: ElytronError[] = [];
  const middleware = memoryMiddleware(refusing, { onError: (error) => errors.push(error) });
  const { model } = scriptedModel({ text: "Hello." });
  await generateText({ model: wrapLanguageModel({ model, middleware }), prompt: "Hello?" });
  await middleware.settled();
  assert.deepEqual(
    errors.map(({ key }) => key),
    ["permission_refused"],
  );
});

test("a call that is aborted does not wait for memory, and is no failure of it", async () => {
  const reason = new Error("the user left");
  const controller = new AbortController();
  const silent = connect(server.url, {
    fetch: (_input, init) =>
      new Promise((_resolve, reject) => {
        init?.signal?.addEventListener("abort", () => reject(init.signal?.reason));
        controller.abort(reason);
      }),
  });
  const errors: ElytronError[] = [];
  const middleware = memoryMiddleware(silent, { waitMs: 60_000, onError: (error) => errors.push(error) });
  const { model } = scriptedModel({ text: "Hello." });
  const call = { prompt: "Hello?", abortSignal: controller.signal, ...elytron({ store: false }) };
  await generateText({ model: wrapLanguageModel({ model, middleware }), ...call }).catch((error: unknown) => error);
  assert.deepEqual(errors, []);
});

test("a question longer than a query is searched for by its beginning", async () => {
  const space = memory.withSpace("long");
  await space.add("The boat key is under the oar.");
  const { model, prompts } = scriptedModel({ text: "Under the oar." });
  const errors: ElytronError[] = [];
  const middleware = memoryMiddleware(space, { onError: (error) => errors.push(error) });
  const question = `Where is the boat key? ${"😀".repeat(5000)}`;
  await generateText({
    model: wrapLanguageModel({ model, middleware }),
    prompt: question,
    ...elytron({ store: false }),
  });
  assert.deepEqual([errors, textOf(prompts[0]).length], [[], 2]);
});

test("an answer that is cut off is not stored", async () => {
  const { model } = scriptedModel({ text: "One two three.", isOpen: true });
  const middleware = memoryMiddleware(memory.withSpace("cut"));
  const controller = new AbortController();
  const call = { prompt: "Count.", abortSignal: controller.signal, ...elytron({ conversation: "c" }) };
  const result = streamText({ model: wrapLanguageModel({ model, middleware }), ...call });
  for await (const delta of result.textStream) if (delta.startsWith("One")) break;
  controller.abort();
  await middleware.settled();
  assert.ok(!(await memory.spaces()).spaces.some(({ space }) => space === "cut"));
});
