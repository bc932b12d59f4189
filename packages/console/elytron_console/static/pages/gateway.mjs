// LLM gateway: by which ways do models' programs come in, and do the parts work?
import { Badge, Button, Empty, Failure, Page, Panel, Table, Waiting, ask, html, span, useAction, useLoad, useState } from "../lib.mjs";

// The server ends a check after 30 s.
const CHECK_MS = 60_000;

export default function Gateway() {
  const { data, error, loading, at } = useLoad(({ signal }) => ask("GET", "/llm-gateway", undefined, { signal }), []);
  return html`
    <${Page} title="LLM gateway" question="By which ways do models' programs come in, and do the parts work?" loading=${loading} error=${error} at=${data && at}>
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Panel} title="Ways in" flush>
          ${data.endpoints.length ? html`
            <${Table} label="Ways in" rows=${data.endpoints} keyOf=${(way) => way.path + way.title} columns=${[
              ["For", (way) => way.title, "tight"],
              ["Address", (way) => html`<span class="id">${location.origin}${way.path}</span>`, "grow"],
              ["State", (way) => html`<${Badge} tone=${way.enabled ? "good" : "warn"}>${way.enabled ? "on" : "off"}<//>`],
            ]} />` : html`<${Empty} title="None is shown">Start the server with --llm-upstream URL, or install the extras mcp and a2a.<//>`}
        <//>
        <div class="grid calls">
          <${Panel} title="Smoke checks" flush aside="fixed commands; nothing that is typed here gets into one">
            ${data.smoke_checks.length ? html`<ul class="list">${data.smoke_checks.map((check) => html`<${Smoke} key=${check.id} check=${check} />`)}</ul>`
              : html`<${Empty} title="There is none">The program that serves this console has no checks.<//>`}
          <//>
          <${Panel} title="To set up an agent, run">
            ${data.rule_commands.length ? html`<ul class="form">${data.rule_commands.map((command) => html`<li key=${command}><code class="once">${command}</code></li>`)}</ul>`
              : html`<p class="soft">The program that serves this console names no command.</p>`}
          <//>
        </div>`}
    <//>`;
}

function Smoke({ check }) {
  const [report, setReport] = useState(null);
  const { busy, error, run } = useAction(async () => setReport(await ask("POST", `/llm-gateway/smoke-checks/${check.id}/run`, undefined, { deadline: CHECK_MS })));
  const outcome = report && (report.timed_out ? ["bad", "ended at its deadline"] : report.exit_code === 0 ? ["good", "works"] : ["bad", `exit code ${report.exit_code}`]);
  return html`
    <li>
      <div class="row between"><div><div>${check.title}</div><code class="small">${check.command}</code></div>
        <div class="row">${outcome && html`<${Badge} tone=${outcome[0]}>${outcome[1]}<//><span class="soft small">${span(report.duration_ms)}</span>`}<${Button} busy=${busy} aria-label=${`Run: ${check.title}`} onClick=${run}>${busy ? "Running…" : "Run"}<//></div></div>
      <${Failure} error=${error} />
      ${report && html`<pre class="block output" tabindex="0">${report.clipped ? "… the beginning is left out\n" : ""}${report.stdout}${report.stderr ? `\n${report.stderr}` : ""}</pre>`}
    </li>`;
}
