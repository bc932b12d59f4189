// Server: how is it reached, and which models does it use?
import { Failure, Page, Pairs, Panel, Table, Waiting, ask, count, html, useAction, useId, useLoad, useState } from "../lib.mjs";

export default function Server() {
  return html`
    <${Page} title="Server" question="How is the server reached, and which models does it use?">
      <${Transports} />
      <${Models} />
    <//>`;
}

function Transports() {
  const { data, error, loading, at, reload } = useLoad(({ signal }) => ask("GET", "/transports", undefined, { signal }), []);
  const { busy, error: refused, run } = useAction(async (item) => { await ask("PATCH", `/transports/${item.id}`, { enabled: !item.enabled }); reload(); });
  return html`
    <${Panel} title="Transports" aside="A disabled transport returns 503, now and after a restart. The console cannot disable itself." flush>
      <${Failure} error=${error ?? refused} at=${data && error && at} />
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Table} label="Transports" rows=${data.items} keyOf=${(item) => item.id} columns=${[
          ["On", (item) => html`<button type="button" role="switch" class="switch" aria-checked=${item.enabled ? "true" : "false"} aria-label=${item.title} disabled=${busy} onClick=${() => run(item)}></button>`],
          ["Transport", (item) => item.title, "tight"],
          ["Endpoint", (item) => item.endpoint ? html`<span class="id">${item.endpoint}</span>` : html`<span class="soft">not set</span>`, "grow"],
          ["Paths", (item) => html`<span class="id">${item.paths.slice(0, 4).join("  ")}${item.paths.length > 4 ? ` and ${count(item.paths.length - 4)} more` : ""}</span>`, "grow"],
          ["Operations", (item) => (item.calls === undefined ? html`<span class="soft">not counted</span>` : count(item.calls)), "num"],
        ]} />`}
    <//>`;
}

function Models() {
  const { data, error, loading, at, reload } = useLoad(({ signal }) => ask("GET", "/model-config", undefined, { signal }), []);
  return html`
    <${Panel} title="Models">
      <${Failure} error=${error} at=${data && at} />
      ${!data ? loading && html`<${Waiting} />` : html`
        <div class="form">
          <div class="grid">
            <${Model} key=${`e${data.embedder.setting}`} name="embedder" title="Embedder" of=${data.embedder} none="uses words and built-in vectors" onDone=${reload} />
            <${Model} key=${`l${data.language_model.setting}`} name="language_model" title="Language model" of=${data.language_model} none="uses rules" onDone=${reload} />
          </div>
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
        <div class="field"><label for=${id}>From the next start</label>
          <div class="row"><input id=${id} style=${{ flex: "1 1 160px", width: "auto" }} value=${text} placeholder=${name === "embedder" ? "e5, a folder, or URL#MODEL@DIMENSIONS" : "ollama:llama3.2, openai:gpt-5"} onInput=${(event) => setText(event.currentTarget.value)} />
          <button type="submit" disabled=${busy || !changed}>Save</button></div></div>`}
      <${Failure} error=${error} />
    </form>`;
}
