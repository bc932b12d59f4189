// Spending: what did models cost, by day, and what is left of the budget?
import { Bars, Button, Empty, Figure, Meter, Page, Panel, Table, Waiting, ask, count, day, html, linkTo, moment, plural, useLoad, useOperation, useSession, words } from "../lib.mjs";

const DAY = 86_400_000;
const SHOWN = 30;
const money = (cost) => (cost ? (cost / 1e6).toFixed(cost < 1e4 ? 6 : 4) : "0");
const tokens = (spent) => spent.prompt_tokens + spent.completion_tokens;
const utc = (at) => day(at + new Date(at).getTimezoneOffset() * 60_000);
const NOTHING = { calls: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 };

export default function Spending() {
  const { space, operator, agents } = useSession();
  const operation = useOperation();
  const { data, error, loading, at, reload } = useLoad(async ({ signal }) => {
    const get = (path) => ask("GET", path, undefined, { signal });
    const place = `?space=${encodeURIComponent(space)}`;
    const [book, jobs, spaces, agent] = await Promise.all([
      get(`/spending${place}`), operation("list_jobs", { limit: 200 }, {}, { signal }),
      operator ? get("/spending/spaces") : null, agents ? agentUsage(get, place) : null,
    ]);
    return { book, jobs, spaces, agent };
  }, [operation, space]);
  return html`
    <${Page} title="Spending" question="What did models cost each day, and how much budget is left?" loading=${loading} error=${error} at=${data && at}
      actions=${html`<${Button} onClick=${reload}>Refresh<//>`}>
      ${!data ? loading && html`<${Waiting} />` : html`<${Book} book=${data.book} agent=${data.agent} /><${Programs} book=${data.book} /><${Dearest} jobs=${data.jobs.jobs} />
        ${data.spaces && html`<${BySpace} ...${data.spaces} />`}
        <p class="small">Token counts are those reported by the provider. Maintenance: recorded for the last 31 days of use, in UTC, and limited by the budget. Programs: answers with memory that passed through this server since ${moment(data.book.programs_since)}, paid with the programs' own keys and not limited by the budget.${agents ? html` Agent: the turns of the last 24 hours, see <a href=${linkTo("agents")}>Agents</a>.` : ""}</p>`}
    <//>`;
}

/** What the agent of the space used in a day; null if it has none, or it is off. */
async function agentUsage(get, place) {
  const { exists } = await get(`/agents${place}`);
  if (!exists) return null;
  const { enabled } = await get(`/agent/config${place}`);
  return enabled ? get(`/agent/usage${place}`) : null;
}

function Book({ book, agent }) {
  const today = book.days.find((one) => one.at === book.today) ?? { spent: NOTHING, held_calls: 0, held_tokens: 0 };
  const known = new Map(book.days.map((one) => [one.at, one.spent]));
  const days = Array.from({ length: SHOWN }, (_, place) => book.today - (SHOWN - 1 - place) * DAY);
  const used = days.map((at) => tokens(known.get(at) ?? NOTHING));
  const month = used.reduce((sum, one) => sum + one, 0);
  const calls = today.spent.calls + today.held_calls;
  const programs = book.programs.filter((row) => row.at === book.today);
  const whole = tokens(today.spent) + today.held_tokens;
  return html`
    <div class="figures" role="group" aria-label="Figures">
      <${Figure} label="Cost today" value=${money(today.spent.cost)} note=${today.spent.calls && !today.spent.cost ? "not reported by the provider" : "in the provider's currency"} />
      <${Figure} label="Calls today" value=${count(today.spent.calls)} note=${today.held_calls ? `${count(today.held_calls)} in progress` : "by maintenance"} />
      <${Figure} label="Tokens today" value=${count(tokens(today.spent))} note=${`by maintenance, ${count(today.spent.completion_tokens)} output`} />
      <${Figure} label="Tokens in 30 days" value=${count(month)} note=${`by maintenance, on ${plural(used.filter(Boolean).length, "day")}`} />
      <${Figure} label="Programs' tokens today" value=${count(programs.reduce((sum, row) => sum + row.read + row.written, 0))} note=${plural(programs.reduce((sum, row) => sum + row.calls, 0), "answer")} />
      ${agent && html`<${Figure} label="Agent's tokens, 24 hours" value=${count(agent.input_tokens + agent.output_tokens)} note=${`${plural(agent.turns, "turn")}, ${count(agent.failed)} failed`} />`}
    </div>
    <div class="grid">
      <${Panel} title="Today's budget" aside=${book.model ?? "no model: maintenance uses rules"}>
        <${Meter} label="Calls" part=${calls} whole=${book.budget.calls_per_day} note=${`${count(calls)} of ${count(book.budget.calls_per_day)}`} />
        <${Meter} label="Tokens" part=${whole} whole=${book.budget.tokens_per_day} note=${`${count(whole)} of ${count(book.budget.tokens_per_day)}`} />
      <//>
      <${Panel} title="Tokens by day" aside="the last 30 days, UTC">
        <${Bars} values=${used} label=${`Tokens by day: ${count(month)} in 30 days, at most ${count(Math.max(...used))} a day`} />
        <div class="axis"><span>${utc(days[0])}</span><span>${utc(book.today)}</span></div>
      <//>
    </div>
    ${book.days.length > 0 && html`
      <${Panel} title="Days" flush>
        <${Table} label="Days" rows=${[...book.days].reverse().slice(0, SHOWN)} keyOf=${(one) => one.at} columns=${[
          ["Day", (one) => utc(one.at), "grow"],
          ["Calls", (one) => count(one.spent.calls), "num"],
          ["Input", (one) => count(one.spent.prompt_tokens), "num"],
          ["Output", (one) => count(one.spent.completion_tokens), "num"],
          ["Cost", (one) => money(one.spent.cost), "num"],
        ]} />
      <//>`}`;
}

const Programs = ({ book }) => html`
  <${Panel} title="Programs through this server" flush aside=${`since ${moment(book.programs_since)}`}>
    ${book.programs.length === 0 ? html`<${Empty} title="No program has used a model">No answer through the model APIs with memory reported tokens for this space.<//>` : html`
      <${Table} label="Programs through this server" rows=${[...book.programs].reverse().slice(0, 50)} keyOf=${(row) => `${row.at} ${row.model}`} columns=${[
        ["Model", (row) => html`<bdi>${row.model || "not reported"}</bdi>`, "grow"],
        ["Day", (row) => utc(row.at), "tight"],
        ["Answers", (row) => count(row.calls), "num"],
        ["Input", (row) => count(row.read), "num"],
        ["Output", (row) => count(row.written), "num"],
      ]} />`}
  <//>`;

function Dearest({ jobs }) {
  const rows = jobs.filter((job) => job.spent.calls).sort((one, other) => tokens(other.spent) - tokens(one.spent)).slice(0, 10);
  return html`
    <${Panel} title="Jobs with the most tokens" flush aside=${html`<a href=${linkTo("jobs")}>All jobs</a>`}>
      ${rows.length === 0 ? html`<${Empty} title="No job has used a model">This space lists ${plural(jobs.length, "job")}.<//>` : html`
        <${Table} label="Jobs with the most tokens" rows=${rows} keyOf=${(job) => job.id} columns=${[
          ["Conversation", (job) => html`<a href=${linkTo("conversations", { channel: job.channel, conversation: job.conversation })}><bdi>${job.conversation}</bdi></a>`, "grow"],
          ["Kind", (job) => words(job.kind), "tight"],
          ["When", (job) => moment(job.updated_at), "tight"],
          ["Calls", (job) => count(job.spent.calls), "num"],
          ["Tokens", (job) => count(tokens(job.spent)), "num"],
          ["Cost", (job) => money(job.spent.cost), "num"],
        ]} />`}
    <//>`;
}

const BySpace = ({ items, counted, clipped }) => html`
  <${Panel} title="Spaces with the most tokens" flush aside=${`${clipped ? "the first " : ""}${plural(counted, "space")} counted`}>
    ${items.length === 0 ? html`<${Empty} title="No space has used a model" />` : html`
      <${Table} label="Spaces with the most tokens" rows=${items} keyOf=${(one) => one.space} columns=${[
        ["Space", (one) => html`<bdi>${one.space}</bdi>`, "grow"],
        ["Tokens today", (one) => count(tokens(one.today)), "num"],
        ["Total tokens", (one) => count(tokens(one.total)), "num"],
        ["Calls", (one) => count(one.total.calls), "num"],
        ["Cost", (one) => money(one.total.cost), "num"],
      ]} />`}
  <//>`;
