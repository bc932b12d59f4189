// Server: through what is it reached, with which models, and do its parts work?
import { Badge, Button, Empty, Failure, Field, Page, Pairs, Panel, Table, Waiting, ask, count, html, span, useAction, useId, useLoad, useState } from "../lib.mjs";

export default function Server() {
  return html`
    <${Page} title="Server" question="Through what is it reached, with which models, and do its parts work?">
      <${Transports} />
      <div class="grid"><${Models} /><${WaysIn} /></div>
    <//>`;
}

function Transports() {
  const { data, error, loading, reload } = useLoad(({ signal }) => ask("GET", "/transports", undefined, { signal }), []);
  const { busy, error: refused, run } = useAction(async (item) => { await ask("PATCH", `/transports/${item.id}`, { enabled: !item.enabled }); reload(); });
  return html`
    <${Panel} title="Transports" aside="What is off answers 503, at once and after a restart. The console cannot switch itself off." flush>
      <${Failure} error=${error ?? refused} />
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Table} label="Transports" rows=${data.items} keyOf=${(item) => item.id} columns=${[
          ["On", (item) => html`<button type="button" role="switch" class="switch" aria-checked=${item.enabled ? "true" : "false"} aria-label=${item.title} disabled=${busy} onClick=${() => run(item)}></button>`],
          ["Transport", (item) => item.title, "tight"],
          ["Paths", (item) => html`<span class="id">${item.paths.slice(0, 4).join("  ")}${item.paths.length > 4 ? ` and ${count(item.paths.length - 4)} more` : ""}</span>`, "grow"],
          ["Operations asked for", (item) => (item.calls === undefined ? html`<span class="soft">not counted</span>` : count(item.calls)), "num"],
        ]} />`}
    <//>`;
}

function Models() {
  const { data, error, loading, reload } = useLoad(({ signal }) => ask("GET", "/model-config", undefined, { signal }), []);
  return html`
    <${Panel} title="Models">
      ${error ? html`<${Failure} error=${error} />` : !data ? loading && html`<${Waiting} />` : html`
        <div class="form">
          <${Model} key=${`e${data.embedder.setting}`} name="embedder" title="Embedder" of=${data.embedder} none="words alone are compared" onDone=${reload} />
          <${Model} key=${`l${data.language_model.setting}`} name="language_model" title="Language model" of=${data.language_model} none="rules maintain memory" onDone=${reload} />
          <p class="small">${data.note}</p>
        </div>`}
    <//>`;
}

function Model({ name, title, of, none, onDone }) {
  const [text, setText] = useState(of.setting ?? "");
  const id = useId();
  const { busy, error, run } = useAction(async () => { await ask("PATCH", "/model-config", { [name]: text.trim() }); onDone(); });
  const changed = text.trim() !== (of.setting ?? "");
  return html`
    <form class="form" onSubmit=${(event) => { event.preventDefault(); run(); }}>
      <${Pairs} rows=${[[title, of.in_use ?? html`<span class="soft">none: ${none}</span>`], ["Set by", of.origin]]} />
      ${of.is_changeable && html`
        <div class="field"><label for=${id}>From the next start on</label>
          <div class="row"><input id=${id} style=${{ flex: "1 1 160px", width: "auto" }} value=${text} placeholder=${name === "embedder" ? "minilm, use, a folder, or URL#MODEL@DIMENSIONS" : "ollama:llama3.2, openai:gpt-5"} onInput=${(event) => setText(event.currentTarget.value)} />
          <button type="submit" disabled=${busy || !changed}>Save</button></div></div>`}
      <${Failure} error=${error} />
    </form>`;
}

function WaysIn() {
  const { data, error, loading } = useLoad(({ signal }) => ask("GET", "/llm-gateway", undefined, { signal }), []);
  if (!data) return html`<${Panel} title="Ways in for models' programs">${error ? html`<${Failure} error=${error} />` : loading && html`<${Waiting} />`}<//>`;
  return html`
    <${Panel} title="Ways in for models' programs">
      <div class="form">
        ${data.endpoints.length ? html`<${Pairs} rows=${data.endpoints.map((way) => [way.title, html`<span class="mono">${location.origin}${way.path}</span> ${!way.enabled && html`<${Badge} tone="warn">off<//>`}`])} />`
          : html`<${Empty} title="None is shown">Start the server with --llm-upstream URL, or install the extras mcp and a2a.<//>`}
        ${data.rule_commands.length > 0 && html`<div><h3>To set up an agent, run</h3><ul>${data.rule_commands.map((command) => html`<li key=${command}><code>${command}</code></li>`)}</ul></div>`}
        <div><h3>Smoke checks</h3>
          ${data.smoke_checks.length ? html`<ul class="form">${data.smoke_checks.map((check) => html`<${Smoke} key=${check.id} check=${check} />`)}</ul>`
            : html`<p class="soft">The program that serves this console has none.</p>`}</div>
      </div>
    <//>`;
}

function Smoke({ check }) {
  const [report, setReport] = useState(null);
  const { busy, error, run } = useAction(async () => setReport(await ask("POST", `/llm-gateway/smoke-checks/${check.id}/run`)));
  const outcome = report && (report.timed_out ? ["bad", "ended at its deadline"] : report.exit_code === 0 ? ["good", "works"] : ["bad", `exit code ${report.exit_code}`]);
  return html`
    <li class="form">
      <div class="row between"><div><div>${check.title}</div><code class="small">${check.command}</code></div>
        <div class="row">${outcome && html`<${Badge} tone=${outcome[0]}>${outcome[1]}<//><span class="soft small">${span(report.duration_ms)}</span>`}<${Button} busy=${busy} aria-label=${`Run: ${check.title}`} onClick=${run}>${busy ? "Running…" : "Run"}<//></div></div>
      <${Failure} error=${error} />
      ${report && html`<pre class="block output" tabindex="0">${report.clipped ? "… the beginning is left out\n" : ""}${report.stdout}${report.stderr ? `\n${report.stderr}` : ""}</pre>`}
    </li>`;
}
