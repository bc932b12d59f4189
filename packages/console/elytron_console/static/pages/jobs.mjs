// Jobs: what was deferred, what failed, and what did models cost today?
import { Badge, Button, Empty, Failure, Figure, Page, Panel, State, Table, Waiting, count, html, linkTo, moment, plural, useAction, useLoad, useOperation, words } from "../lib.mjs";

const OVER = new Set(["succeeded", "cancelled", "dead_letter"]);

export default function Jobs() {
  const operation = useOperation();
  const { data, error, loading, at, reload } = useLoad(({ signal }) => operation("list_jobs", { limit: 200 }, {}, { signal }), [operation]);
  const { busy, error: refused, run } = useAction(async (name, request) => { await operation(name, request); reload(); });
  const spent = data?.spent_today;
  return html`
    <${Page} title="Jobs" question="What was deferred, what failed, and what did models cost today?" loading=${loading} error=${error ?? refused} at=${data && at}
      actions=${html`<${Button} onClick=${reload}>Refresh<//><${Button} busy=${busy} onClick=${() => run("run_jobs", {})}>Run due jobs<//>`}>
      ${!data ? loading && html`<${Waiting} />` : html`
        <div class="figures" role="group" aria-label="Figures">
          <${Figure} label="Health" value=${words(data.health)} tone=${data.health === "degraded" ? "bad" : ""} />
          ${Object.entries(data.counts).map(([state, number]) => html`<${Figure} key=${state} label=${words(state)} value=${count(number)} />`)}
          <${Figure} label="Model calls today" value=${count(spent.calls)} note=${`${count(data.calls_left)} left`} />
          <${Figure} label="Tokens today" value=${count(spent.prompt_tokens + spent.completion_tokens)} note=${`${count(data.tokens_left)} left`} />
          <${Figure} label="Cost today" value=${spent.cost ? (spent.cost / 1e6).toFixed(4) : "0"} note="in the provider's currency" />
        </div>
        <${Panel} flush label="Jobs">
          ${data.jobs.length === 0 ? html`<${Empty} title="No deferred jobs">Maintenance that needs a model waits here until a worker runs it (elytron serve --work).<//>` : html`
            <${Table} wide label="Jobs" rows=${data.jobs} keyOf=${(job) => job.id} columns=${[
              ["State", (job) => html`<${State} state=${job.state} />`],
              ["Kind", (job) => words(job.kind), "tight"],
              ["Conversation", (job) => html`<a href=${linkTo("conversations", { channel: job.channel, conversation: job.conversation })}><bdi>${job.conversation}</bdi></a> <span class="soft">${plural(job.turns, "turn")}</span>`, "grow"],
              ["Attempts", (job) => count(job.attempts), "num"],
              ["Due", (job) => moment(job.due_at), "tight"],
              ["Error", (job) => (job.error ? html`<bdi>${job.error}</bdi>` : html`<span class="soft">none</span>`)],
              ["", (job) => html`<div class="row tight">${job.state !== "succeeded" && html`<${Button} kind="quiet" busy=${busy} onClick=${() => run("retry_job", { id: job.id })}>Retry now<//>`}${!OVER.has(job.state) && html`<${Button} kind="quiet" busy=${busy} onClick=${() => run("cancel_job", { id: job.id })}>Cancel<//>`}</div>`],
            ]} />`}
          ${data.clipped && html`<div class="pager"><span class="soft">Only the first 200 are shown.</span></div>`}
        <//>`}
    <//>`;
}
