// LLM gateway: how do model clients connect, and do the parts work?
import { Badge, Button, Empty, Failure, Page, Panel, Table, Waiting, ask, html, span, useAction, useLoad, useState } from "../lib.mjs";

// The server ends a check after 30 s.
const CHECK_MS = 60_000;

export default function Gateway() {
  const { data, error, loading, at } = useLoad(({ signal }) => ask("GET", "/llm-gateway", undefined, { signal }), []);
  return html`
    <${Page} title="LLM gateway" question="How do model clients connect, and do the parts work?" loading=${loading} error=${error} at=${data && at}>
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Panel} title="Endpoints" flush>
          ${data.endpoints.length ? html`
            <${Table} label="Endpoints" rows=${data.endpoints} keyOf=${(way) => way.path + way.title} columns=${[
              ["For", (way) => way.title, "tight"],
              ["Address", (way) => html`<span class="id">${location.origin}${way.path}</span>`, "grow"],
              ["State", (way) => html`<${Badge} tone=${way.enabled ? "good" : "warn"}>${way.enabled ? "on" : "off"}<//>`],
            ]} />` : html`<${Empty} title="No endpoints">Start the server with --llm-upstream URL, or install the extras mcp and a2a.<//>`}
        <//>
        <div class="grid calls">
          <${Panel} title="Smoke checks" flush aside="fixed commands without user input">
            ${data.smoke_checks.length ? html`<ul class="list">${data.smoke_checks.map((check) => html`<${Smoke} key=${check.id} check=${check} />`)}</ul>`
              : html`<${Empty} title="No smoke checks">The program that serves this console has none.<//>`}
          <//>
          <${Panel} title="Set up an agent">
            ${data.rule_commands.length ? html`<ul class="form">${data.rule_commands.map((command) => html`<li key=${command}><code class="once">${command}</code></li>`)}</ul>`
              : html`<p class="soft">The program that serves this console provides no commands.</p>`}
          <//>
        </div>`}
    <//>`;
}

function Smoke({ check }) {
  const [report, setReport] = useState(null);
  const { busy, error, run } = useAction(async () => setReport(await ask("POST", `/llm-gateway/smoke-checks/${check.id}/run`, undefined, { deadline: CHECK_MS })));
  const outcome = report && (report.timed_out ? ["bad", "timed out"] : report.exit_code === 0 ? ["good", "passed"] : ["bad", `exit code ${report.exit_code}`]);
  return html`
    <li>
      <div class="row between"><div><div>${check.title}</div><code class="small">${check.command}</code></div>
        <div class="row">${outcome && html`<${Badge} tone=${outcome[0]}>${outcome[1]}<//><span class="soft small">${span(report.duration_ms)}</span>`}<${Button} busy=${busy} aria-label=${`Run: ${check.title}`} onClick=${run}>${busy ? "Running…" : "Run"}<//></div></div>
      <${Failure} error=${error} />
      ${report && html`<pre class="block output" tabindex="0">${report.clipped ? "… earlier output omitted\n" : ""}${report.stdout}${report.stderr ? `\n${report.stderr}` : ""}</pre>`}
    </li>`;
}
