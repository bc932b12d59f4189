// Agents: what does the agent do, what will it do later, and did it work?
import { Badge, Button, Check, Dialog, Empty, Failure, Field, Figure, Page, Panel, Select, State, Table, Text, Waiting, ask, count, html, moment, plural, span, useAction, useLoad, useSession, useState, words } from "../lib.mjs";

const HEALTH = { unknown: "not used yet", answers: "available", fails: "failing" };
const HEALTH_TONES = { answers: "good", fails: "bad", unknown: "" };
const SWITCHES = [["enabled", "On", "Answers requests and runs schedules."], ["tools", "Tools", "May call tools."], ["compaction", "Summaries", "Summarizes old turns."]];
const DAYS = [["mon", "Monday"], ["tue", "Tuesday"], ["wed", "Wednesday"], ["thu", "Thursday"], ["fri", "Friday"], ["sat", "Saturday"], ["sun", "Sunday"]];
const UNITS = [["60", "minutes"], ["3600", "hours"], ["86400", "days"]];

/** A route of the agents of the space that the page shows. */
function useAgents() {
  const { space } = useSession();
  return (method, path, body, options, query = "") => ask(method, `/agent${path}?space=${encodeURIComponent(space)}${query}`, body, options);
}

const missing = (refusal) => { if (refusal.status === 404) return null; throw refusal; };

export default function Agents() {
  const { space } = useSession();
  const agents = useAgents();
  const { data, error, loading, at, reload } = useLoad(async ({ signal }) => {
    const read = (path, query) => agents("GET", path, undefined, { signal }, query);
    const { exists } = await ask("GET", `/agents?space=${encodeURIComponent(space)}`, undefined, { signal });
    if (!exists) return { agent: null };
    const [agent, config] = await Promise.all([read(""), read("/config")]);
    if (!config.enabled) return { agent, config, off: true };
    const [usage, subagents, items, schedules] = await Promise.all([
      read("/usage"), read("/subagents"), read("/items", "&limit=10"), read("/schedules").catch(missing),
    ]);
    return { agent, config, usage, subagents: subagents.data, items: items.data, schedules: schedules?.data ?? null };
  }, [space]);
  return html`
    <${Page} title="Agents" question="What does the agent do, what is scheduled, and did it work?" loading=${loading} error=${error} at=${data && at}
      actions=${html`<${Button} onClick=${reload}>Refresh<//>`}>
      ${!data ? loading && html`<${Waiting} />` : !data.agent ? html`<${Make} onDone=${reload} />` : html`
        <${Figures} ...${data} />
        <${Settings} config=${data.config} onDone=${reload} />
        ${data.off ? html`<div class="note">The agent is off. Turn it on to see its messages and schedules.</div>` : html`
          <${Schedules} items=${data.schedules} agents=${[data.agent, ...data.subagents]} onDone=${reload} />
          <${Messages} items=${data.items} />
          ${data.subagents.length > 0 && html`<${Subagents} items=${data.subagents} />`}`}`}
    <//>`;
}

function Make({ onDone }) {
  const agents = useAgents();
  const { busy, error, run } = useAction(async () => {
    const { timeZone, locale } = Intl.DateTimeFormat().resolvedOptions();
    await agents("POST", "/init", { timezone: timeZone ?? "UTC", locale });
    onDone();
  });
  return html`
    <${Panel} label="No agent">
      <${Empty} title="This space has no agent yet">An agent is one long conversation with memory. Create it here, or through a client's first call.<//>
      <${Failure} error=${error} />
      <div class="row centred"><${Button} kind="primary" busy=${busy} onClick=${run}>Create agent<//></div>
    <//>`;
}

const Figures = ({ agent, config, usage, schedules }) => html`
  <div class="figures" role="group" aria-label="Figures">
    <${Figure} label="Agent" value=${config.enabled ? "on" : "off"} note=${`since ${moment(agent.created_at)}`} />
    <${Figure} label="Model" value=${html`<${Badge} tone=${HEALTH_TONES[agent.model_health]}>${HEALTH[agent.model_health]}<//>`} note=${config.model} />
    ${usage && html`
      <${Figure} label="Turns in 24 hours" value=${count(usage.turns)} note=${usage.failed ? `${count(usage.failed)} failed` : "none failed"} tone=${usage.failed ? "warn" : ""} />
      <${Figure} label="Tokens in 24 hours" value=${count(usage.input_tokens + usage.output_tokens)} note=${`${count(usage.output_tokens)} output, ${plural(usage.calls, "tool call")}`} />`}
    ${schedules && html`<${Figure} label="Schedules" value=${count(schedules.filter((one) => one.state === "active").length)} note="active" />`}
  </div>`;

function Settings({ config, onDone }) {
  const agents = useAgents();
  const { busy, error, run } = useAction(async (change) => { await agents("PUT", "/config", change); onDone(); });
  return html`
    <${Panel} title="Settings">
      <div class="form">
        <div class="fields">
          <${Field} label="Model"><${Select} value=${config.model} disabled=${busy} options=${config.models.map((name) => [name, name])} onChange=${(model) => run({ model })} /><//>
          ${SWITCHES.map(([name, label, told]) => html`
            <div class="field" key=${name}><label id=${`agent-${name}`}>${label}</label>
              <button type="button" role="switch" class="switch" aria-checked=${config[name] ? "true" : "false"} aria-labelledby=${`agent-${name}`} disabled=${busy} onClick=${() => run({ [name]: !config[name] })}></button>
              <small>${told}</small></div>`)}
        </div>
        <${Failure} error=${error} />
      </div>
    <//>`;
}

const ruleText = ({ type, ...rule }) => {
  if (type === "one_off") return `once, at ${rule.at.replace("T", " ")}`;
  if (type === "interval") return `every ${span(rule.seconds * 1000)}`;
  if (type === "daily") return `every day at ${rule.time}`;
  if (type === "weekly") return `${rule.days.map((day) => DAYS.find(([name]) => name === day)?.[1] ?? day).join(", ")} at ${rule.time}`;
  return `cron ${rule.line}`;
};

function Schedules({ items, agents, onDone }) {
  const [form, setForm] = useState(null);
  const names = new Map(agents.map((one) => [one.id, one.name ?? "main"]));
  if (!items) return html`<div class="note">The operator has disabled schedules on this server.</div>`;
  return html`
    <${Panel} title="Schedules" flush aside=${html`<${Button} onClick=${() => setForm({ kind: "add" })}>New schedule<//>`}>
      ${items.length === 0 ? html`<${Empty} title="No schedules">A schedule starts a turn of the agent at a set time, even when no client is connected.<//>` : html`
        <${Table} label="Schedules" rows=${items} keyOf=${(one) => one.id} columns=${[
          ["Task", (one) => html`${one.name && html`<strong><bdi>${one.name}</bdi></strong>`}<${Text} text=${one.task} lines="3" /><span class="soft small">${one.created_by === "agent" ? "created by the agent" : "created by the user"}${agents.length > 1 ? `, for ${names.get(one.agent_id) ?? "a deleted agent"}` : ""}</span>`, "grow"],
          ["When", (one) => html`${ruleText(one.rule)}${one.timezone ? html` <span class="soft">${one.timezone}</span>` : ""}`, "some"],
          ["Next", (one) => (one.next_due_at ? moment(one.next_due_at) : html`<span class="soft">none</span>`), "tight"],
          ["Last run", (one) => html`<${LastRun} schedule=${one} />`, "some"],
          ["", (one) => html`<${Button} kind="quiet" aria-label=${`Delete ${one.name || one.task.slice(0, 40)}`} onClick=${() => setForm({ kind: "end", one })}>Delete<//>`],
        ]} />`}
      ${form?.kind === "add" && html`<${Add} agents=${agents} onClose=${() => setForm(null)} onDone=${() => { setForm(null); onDone(); }} />`}
      ${form?.kind === "end" && html`<${End} one=${form.one} onClose=${() => setForm(null)} onDone=${() => { setForm(null); onDone(); }} />`}
    <//>`;
}

function LastRun({ schedule }) {
  const last = schedule.current ?? schedule.runs[schedule.runs.length - 1];
  if (!last) return html`<span class="soft">none yet</span>`;
  const sums = [["completed", schedule.completed], ["failed", schedule.failed], ["expired", schedule.expired]].filter(([, number]) => number);
  return html`<${State} state=${last.state} /> <span class="soft small">${moment(last.due_at)}${last.error ? html`, <bdi>${words(last.error)}</bdi>` : ""}</span>
    <div class="soft small">${sums.map(([name, number]) => `${count(number)} ${name}`).join(", ")}</div>`;
}

const KINDS = [["one_off", "Once"], ["daily", "Every day"], ["weekly", "Weekly"], ["interval", "At an interval"], ["cron", "Cron expression"]];
const RULES = {
  one_off: ({ at }) => ({ at }), daily: ({ time }) => ({ time }), weekly: ({ days, time }) => ({ days, time }),
  interval: ({ every, unit }) => ({ seconds: Number(every) * Number(unit) }), cron: ({ line }) => ({ line }),
};

function Add({ agents: known, onClose, onDone }) {
  const agents = useAgents();
  const [draft, setDraft] = useState({ type: "one_off", name: "", task: "", at: "", time: "09:00", days: ["mon"], every: "1", unit: "3600", line: "0 9 * * 1-5", agent: known[0].id });
  const set = (name) => (event) => setDraft({ ...draft, [name]: event.currentTarget.value });
  const { busy, error, run } = useAction(async () => {
    await agents("POST", "/schedules", { name: draft.name.trim(), task: draft.task.trim(), agent_id: draft.agent, rule: { type: draft.type, ...RULES[draft.type](draft) } });
    onDone();
  });
  const day = (name, on) => setDraft({ ...draft, days: DAYS.map(([each]) => each).filter((each) => (each === name ? on : draft.days.includes(each))) });
  return html`
    <${Dialog} title="New schedule" onClose=${onClose}>
      <form class="form" onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <${Field} label="Task" hint="What the agent should do at that time."><textarea required rows="3" maxlength="4000" value=${draft.task} onInput=${set("task")}></textarea><//>
        <${Field} label="Name"><input maxlength="80" value=${draft.name} onInput=${set("name")} /><//>
        ${known.length > 1 && html`<${Field} label="Agent"><${Select} value=${draft.agent} options=${known.map((one) => [one.id, one.name ?? "The main agent"])} onChange=${(agent) => setDraft({ ...draft, agent })} /><//>`}
        <${Field} label="When"><${Select} value=${draft.type} options=${KINDS} onChange=${(type) => setDraft({ ...draft, type })} /><//>
        ${draft.type === "one_off" && html`<${Field} label="Date and time" hint="In the user's time zone."><input type="datetime-local" required value=${draft.at} onInput=${set("at")} /><//>`}
        ${draft.type === "weekly" && html`<fieldset class="days"><legend>Days</legend>${DAYS.map(([name, label]) => html`<${Check} key=${name} label=${label} checked=${draft.days.includes(name)} onChange=${(on) => day(name, on)} />`)}</fieldset>`}
        ${(draft.type === "daily" || draft.type === "weekly") && html`<${Field} label="Time of day" hint="In the user's time zone."><input type="time" required value=${draft.time} onInput=${set("time")} /><//>`}
        ${draft.type === "interval" && html`<div class="fields"><${Field} label="Every"><input type="number" min="1" max="10000" required value=${draft.every} onInput=${set("every")} /><//><${Field} label="Unit"><${Select} value=${draft.unit} options=${UNITS} onChange=${(unit) => setDraft({ ...draft, unit })} /><//></div>`}
        ${draft.type === "cron" && html`<${Field} label="Cron expression" hint="Five fields: minute, hour, day, month, day of the week."><input required maxlength="100" value=${draft.line} onInput=${set("line")} /><//>`}
        <${Failure} error=${error} />
        <div class="row"><button class="primary" type="submit" disabled=${busy || !draft.task.trim() || (draft.type === "weekly" && !draft.days.length)}>Create schedule</button><button type="button" onClick=${onClose}>Cancel</button></div>
      </form>
    <//>`;
}

function End({ one, onClose, onDone }) {
  const agents = useAgents();
  const { busy, error, run } = useAction(async () => { await agents("DELETE", `/schedules/${encodeURIComponent(one.id)}`); onDone(); });
  return html`
    <${Dialog} title="Delete the schedule" onClose=${onClose}>
      <${Text} text=${one.task} lines="4" />
      <p>The schedule is deleted with its run history. A turn that is already running continues.</p>
      <${Failure} error=${error} />
      <div class="row"><${Button} kind="danger primary" busy=${busy} onClick=${run}>Delete<//><${Button} onClick=${onClose}>Cancel<//></div>
    <//>`;
}

const Messages = ({ items }) => html`
  <${Panel} title="Latest messages" flush aside=${html`<a href="/agent">Open chat</a>`}>
    ${items.length === 0 ? html`<${Empty} title="No messages yet" />` : html`
      <ul class="list">${items.map((item) => html`
        <li key=${item.id}><div class="meta"><${Badge} tone=${item.role === "assistant" ? "accent" : ""}>${words(item.role)}<//><span>${moment(item.created_at)}</span>
          ${item.role === "assistant" && html`<span>${item.delivered_at ? "delivered" : "not delivered yet"}</span>`}${item.reaction && html`<span>${item.reaction.emoji} by ${words(item.reaction.by)}</span>`}</div>
          <${Text} text=${item.text} lines="4" /></li>`)}</ul>`}
  <//>`;

const Subagents = ({ items }) => html`
  <${Panel} title="Subagents" flush>
    <${Table} label="Subagents" rows=${items} keyOf=${(one) => one.id} columns=${[
      ["Name", (one) => html`<bdi>${one.name}</bdi>`, "tight"],
      ["Purpose", (one) => html`<${Text} text=${one.purpose} lines="3" />`, "grow"],
      ["Memory", (one) => words(one.memory), "tight"],
      ["Created by", (one) => words(one.created_by), "tight"],
    ]} />
  <//>`;
