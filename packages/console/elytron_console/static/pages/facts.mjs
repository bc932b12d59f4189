// Facts: what is believed now, what was before, since when, and on what evidence?
import { Button, Check, Empty, Page, Panel, Select, State, Text, Waiting, count, day, html, plural, setQuery, useAddress, useClocks, useEffect, useLoad, useOperation, useState, words } from "../lib.mjs";
import { MemoryDetail } from "../parts/memory.mjs";
import { Strip, reach } from "../parts/strip.mjs";

const KINDS = ["preference", "profile", "relationship", "project", "task", "constraint", "fact"];
const STATES = [["", "Current"], ["all", "All states"], ["superseded", "Superseded"], ["corrected", "Corrected"], ["invalidated", "Ended"], ["forgotten", "Forgotten"], ["deleted", "Deleted"], ["merged", "Merged"]];

/** The facts that held at the time of the clocks, in the form of the list of those that hold now. */
async function factsThen(operation, { q, kind, secret, clocks, cursor }, signal) {
  const filters = { planes: ["long_term"], ...(kind ? { kinds: [kind] } : {}), ...clocks };
  const shared = { limit: 50, include_private: secret, filters, ...(cursor ? { cursor } : {}) };
  const report = q ? await operation("recall", { ...shared, query: q }, {}, { signal }) : await operation("list", shared, {}, { signal });
  const items = (report.items ?? report.hits).map((hit) => ({ id: hit.id, content: hit.text, topic: hit.title, kind: hit.kind, state: "active", freshness: "fresh", observed_at: hit.at, privacy: hit.privacy }));
  return { items, learning: { rules: [] }, withheld: 0, next_cursor: report.next_cursor, has_more: Boolean(report.next_cursor) };
}

export default function Facts() {
  const { query } = useAddress();
  const operation = useOperation();
  const [trail, setTrail] = useState([]);
  const [text, setText] = useState(query.get("q") ?? "");
  useEffect(() => { setText(query.get("q") ?? ""); }, [query.get("q")]);
  const q = query.get("q") ?? "";
  const state = query.get("states") ?? "";
  const kind = query.get("kind") ?? "";
  const secret = query.has("private");
  const key = JSON.stringify([q, state, kind, secret]);
  const cursor = trail[trail.length - 1];
  useEffect(() => setTrail([]), [key]);
  const clocks = useClocks();
  const then = Object.keys(clocks).length > 0;
  const { data, error, loading, at, reload } = useLoad(({ signal }) => then ? factsThen(operation, { q, kind, secret, clocks, cursor }, signal) : operation("list_facts", {
    query: q, limit: 50, include_private: secret, kinds: kind ? [kind] : [], ...(state ? { states: state === "all" ? [] : [state] } : {}), ...(cursor ? { cursor } : {}),
  }, {}, { signal }), [operation, key, cursor, clocks]);
  const id = query.get("id");
  const items = data?.items ?? [];
  const span = reach(items, Date.now());
  const paged = trail.length > 0 || data?.has_more;
  return html`
    <${Page} title="Facts" question="What is believed, since when, and on what evidence?" loading=${loading} error=${error} at=${data && at}>
      <form class="toolbar" role="search" onSubmit=${(event) => { event.preventDefault(); setQuery({ q: text.trim(), id: null }); }}>
        <div class="grow"><input type="search" aria-label="Search facts" placeholder="Words in the fact" value=${text} onInput=${(event) => { setText(event.currentTarget.value); if (!event.currentTarget.value) setQuery({ q: null }); }} /><button class="primary" type="submit">Search</button></div>
        ${!then && html`<${Select} aria-label="State" value=${state} options=${STATES} onChange=${(value) => setQuery({ states: value, id: null })} />`}
        <${Select} aria-label="Kind" value=${kind} options=${[["", "All kinds"], ...KINDS.map((name) => [name, name])]} onChange=${(value) => setQuery({ kind: value, id: null })} />
        <${Check} label="Include private" checked=${secret} onChange=${(on) => setQuery({ private: on ? "1" : null })} />
      </form>
      ${data?.learning.rules.length > 0 && html`<div class="note warn">Not being learned: ${data.learning.rules.map((rule) => (rule.topic ? `${rule.topic} (${rule.state})` : `anything (${rule.state})`)).join(", ")}.</div>`}
      <div class=${id ? "split" : ""}>
        <${Panel} flush label="Facts">
          ${!data ? loading && html`<div class="inset"><${Waiting} /></div>` : items.length === 0 ? html`
            <${Empty} title=${q || state || kind ? "No facts found" : "No facts yet"}>${q ? html`No facts contain all of the words “<bdi>${q}</bdi>”` : "No facts"}${kind ? ` of kind ${kind}` : ""}${state ? ` in state ${words(state)}` : " are current"}. ${data.withheld ? `${plural(data.withheld, "private fact was", "private facts were")} excluded.` : ""}<//>` : html`
            <ul class="list">${items.map((fact) => html`
              <li key=${fact.id} class=${fact.id === id ? "current" : ""}>
                <button type="button" class="open-row" aria-expanded=${fact.id === id ? "true" : "false"} onClick=${() => setQuery({ id: fact.id })}><${Text} text=${fact.content} lines="3" /></button>
                <div class="meta"><bdi>${fact.topic}</bdi><span>${words(fact.kind)}</span>${fact.state !== "active" && html`<${State} state=${fact.state} />`}${fact.freshness !== "fresh" && fact.state === "active" && html`<${State} state=${fact.freshness} />`}${fact.privacy === "private" && html`<${State} state="private" />`}
                  <span>${fact.valid_from ? `from ${day(fact.valid_from)}` : `seen ${day(fact.observed_at)}`}${fact.valid_to ? ` to ${day(fact.valid_to)}` : ""}</span></div>
                ${!then && html`<${Strip} fact=${fact} span=${span} />`}
              </li>`)}</ul>
            <div class="pager">${paged && html`<${Button} onClick=${() => setTrail(trail.slice(0, -1))} disabled=${!trail.length}>Previous page<//>`}<span class="soft small">${plural(items.length, "fact")} from ${day(span[0])} to today${data.withheld ? `, ${count(data.withheld)} private excluded` : ""}</span>${paged && html`<${Button} onClick=${() => setTrail([...trail, data.next_cursor])} disabled=${!data.has_more}>Next page<//>`}</div>`}
        <//>
        ${id && html`<${MemoryDetail} key=${id} id=${id} secret=${secret} onClose=${() => setQuery({ id: null })} onChange=${reload} />`}
      </div>
    <//>`;
}
