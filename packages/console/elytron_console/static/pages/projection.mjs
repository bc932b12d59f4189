// Projection: what would the model be shown, and what did not fit?
import { Badge, Button, Check, Empty, Field, Meter, Page, Pairs, Panel, Select, Table, Waiting, count, html, linkTo, plural, setQuery, useAddress, useClocks, useEffect, useLoad, useOperation, useState, visible, words } from "../lib.mjs";

const PRESSURES = [["normal", "Normal"], ["cautious", "Cautious"], ["critical", "Critical"]];

export default function Projection() {
  const { query } = useAddress();
  const operation = useOperation();
  const clocks = useClocks();
  const [text, setText] = useState(query.get("q") ?? "");
  useEffect(() => { setText(query.get("q") ?? ""); }, [query.get("q")]);
  const q = query.get("q") ?? "";
  const chars = Math.max(1, Number(query.get("chars")) || 4000);
  const pressure = query.get("pressure") ?? "normal";
  const secret = query.has("private");
  const conversation = query.get("conversation") ?? "";
  const { data, error, loading, at } = useLoad(({ signal }) => operation("project", {
    query: q, max_chars: chars, pressure, filters: clocks, private_context: secret ? "allowed" : "withheld",
  }, conversation ? { conversation } : {}, { signal }), [operation, q, chars, pressure, secret, conversation, clocks]);
  return html`
    <${Page} title="Projection" question="What would the model be shown, and what did not fit?" loading=${loading} error=${error} at=${data && at}>
      <form class="form" role="search" onSubmit=${(event) => { event.preventDefault(); setQuery({ q: text.trim() }); }}>
        <div class="toolbar"><div class="grow"><input type="search" aria-label="User message" placeholder="What the user says" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /><button class="primary" type="submit">Project</button></div></div>
        <div class="fields">
          <${Field} label="Characters"><input type="number" min="0" max="100000" step="500" value=${chars} onChange=${(event) => setQuery({ chars: event.currentTarget.value }, { quiet: true })} /><//>
          <${Field} label="Memory pressure"><${Select} value=${pressure} options=${PRESSURES} onChange=${(value) => setQuery({ pressure: value === "normal" ? null : value }, { quiet: true })} /><//>
          <${Field} label="Conversation"><input placeholder="default" value=${conversation} onChange=${(event) => setQuery({ conversation: event.currentTarget.value }, { quiet: true })} /><//>
          <${Check} label="Allow private context" checked=${secret} onChange=${(on) => setQuery({ private: on ? "1" : null })} />
        </div>
      </form>
      ${!data ? loading && html`<${Waiting} />` : html`<${Block} data=${data} />`}
    <//>`;
}

function Block({ data }) {
  const block = data.system_memory_block;
  const stable = block.slice(0, data.stable_chars);
  const rest = block.slice(data.stable_chars);
  const failed = Object.entries(data.checks).filter(([, holds]) => !holds);
  const shown = data.sections.filter((section) => section.chars || section.included.length || section.dropped.length);
  return html`
    <div class="grid calls">
      <${Panel} title="The block" aside=${`${count(block.length)} of ${count(data.budget)} characters`}>
        ${block ? html`
          <pre class="block" tabindex="0" dir="auto"><mark title="The stable prefix">${visible(stable)}</mark>${visible(rest)}</pre>
          <p class="small">The highlighted prefix (${count(data.stable_chars)} characters) changes only with policy and standing facts, so providers can cache it.</p>`
          : html`<${Empty} title="The model would see nothing">${words(data.miss_reason ?? "")}<//>`}
      <//>
      <div class="form">
        <${Panel} title="Parts">
          ${shown.length ? shown.map((section) => html`<${Meter} key=${section.name} label=${words(section.name)} part=${section.chars} whole=${data.budget} note=${`${count(section.chars)} characters${section.included.length ? `, ${count(section.included.length)} shown` : ""}${section.dropped.length ? `, ${count(section.dropped.length)} left out` : ""}`} />`) : html`<p class="soft">All parts are empty.</p>`}
        <//>
        <${Panel} title="Details">
          <${Pairs} rows=${[
            ["Intent", data.intent], ["Requested", `${count(data.requested_chars)} characters`],
            ["Cut by", data.limited_by.length ? data.limited_by.map((clip) => `${words(clip.what)}: ${words(clip.reason)}, ${count(clip.dropped)} left out`).join("; ") : "nothing"],
            ["Checks", failed.length ? html`<${Badge} tone="bad">${failed.map(([name]) => words(name)).join(", ")} failed<//>` : html`<${Badge} tone="good">all passed<//>`],
            ["Private", `${count(data.private_gate.withheld)} withheld, ${count(data.private_gate.shown.length)} shown`],
            ["Journal", `entry ${count(data.sequence)}`],
            ["Memories shown", data.selected_ids.length ? html`${plural(data.selected_ids.length, "memory", "memories")} of ${count(data.candidate_ids.length)}` : "none"],
          ]} />
          ${data.selected_ids.length > 0 && html`<details><summary>Show ids</summary><ul>${data.selected_ids.map((id) => html`<li key=${id}><a class="id" href=${linkTo("memories", { id })}>${id}</a></li>`)}</ul></details>`}
        <//>
      </div>
    </div>`;
}
