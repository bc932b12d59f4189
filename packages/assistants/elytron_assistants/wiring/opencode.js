// Written by `elytron install`. Recalls at each prompt and stores each turn through the installed program.
// It never blocks: answers that take longer than WAIT_MS are dropped, and failures have no effect.
import { spawn } from "node:child_process"

const COMMANDS = __COMMANDS__
const WAIT_MS = 2000
const BLOCKS = 200

function blockOf(output) {
  const text = output.trim()
  try {
    const answer = JSON.parse(text)
    return answer.hookSpecificOutput?.additionalContext ?? answer.additional_context ?? answer.additionalContext ?? ""
  } catch {
    return text
  }
}

// Resolves to the block that a command prints, or to "" after WAIT_MS. Commands that store may run longer.
function run(verb, event) {
  return new Promise((resolve) => {
    const [program, ...words] = COMMANDS[verb]
    const isStoring = verb !== "recall" && verb !== "start"
    const child = spawn(program, words, { cwd: event.cwd, stdio: ["pipe", "pipe", "ignore"], windowsHide: true })
    let output = ""
    const timer = setTimeout(() => {
      resolve("")
      if (!isStoring) child.kill()
    }, WAIT_MS)
    const finish = (text) => {
      clearTimeout(timer)
      resolve(text)
    }
    child.on("error", () => finish(""))
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8").on("data", (part) => (output += part))
    child.on("close", (code) => finish(code === 0 ? blockOf(output) : ""))
    child.stdin.end(JSON.stringify({ hook_event_name: verb, ...event }))
  })
}

const wordsOf = (parts) =>
  parts
    .filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
    .map((part) => part.text)
    .join("\n")

export const ElytronMemory = async ({ client, directory }) => {
  const blocks = new Map() // by message
  const digests = new Map() // by session, as promises
  const compacted = new Set() // sessions whose context was compacted
  const children = new Map() // by session, as promises
  const eventOf = (sessionID, more) => ({ session_id: sessionID, cwd: directory, ...more })

  // Subagents' sessions look like any other session, but nobody types in them.
  function isChild(sessionID) {
    if (!children.has(sessionID)) {
      const answer = client.session.get({ path: { id: sessionID } })
      children.set(sessionID, Promise.resolve(answer).then(({ data }) => Boolean(data?.parentID), () => true))
    }
    return children.get(sessionID)
  }

  async function lastTurn(sessionID) {
    const { data = [] } = await client.session.messages({ path: { id: sessionID } })
    const turn = {}
    for (const { info, parts } of data) {
      const words = wordsOf(parts)
      if (!words.trim()) continue
      if (info.role === "user") Object.assign(turn, { prompt: words, message_id: info.id, last_assistant_message: "" })
      else turn.last_assistant_message = words
    }
    return turn
  }

  async function store(verb, sessionID) {
    if (await isChild(sessionID)) return
    await run(verb, eventOf(sessionID, await lastTurn(sessionID)))
  }

  const hooks = {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const prompt = wordsOf(parts)
      if (!prompt.trim() || (await isChild(sessionID))) return
      const block = await run("recall", eventOf(sessionID, { prompt, message_id: message.id }))
      if (block) blocks.set(message.id, block)
      if (blocks.size > BLOCKS) blocks.delete(blocks.keys().next().value)
    },
    "experimental.chat.messages.transform": async (_, { messages }) => {
      for (const { info, parts } of messages) {
        const block = blocks.get(info.id)
        const part = parts.find((each) => each.type === "text" && !each.synthetic)
        if (block && part && !part.text.includes(block)) part.text += `\n\n${block}`
      }
    },
    // Appended to the first message, because some servers reject a second system message.
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      if (!sessionID || (await isChild(sessionID))) return
      const source = compacted.has(sessionID) ? "compact" : "startup"
      if (!digests.has(sessionID)) digests.set(sessionID, run("start", eventOf(sessionID, { source })))
      const digest = await digests.get(sessionID)
      if (digest) system[0] = system.length ? `${system[0]}\n\n${digest}` : digest
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      store("compact", sessionID).catch(() => {})
      compacted.add(sessionID)
      digests.delete(sessionID)
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") store("keep", event.properties.sessionID).catch(() => {})
      if (event.type === "session.deleted") {
        const { id } = event.properties.info
        if (!(await isChild(id))) run("end", eventOf(id)).catch(() => {})
        digests.delete(id)
        children.delete(id)
        compacted.delete(id)
      }
    },
  }
  // No failure here may stop a prompt.
  const harmless = (hook) => async (input, output) => hook(input, output).catch(() => {})
  return Object.fromEntries(Object.entries(hooks).map(([name, hook]) => [name, harmless(hook)]))
}
