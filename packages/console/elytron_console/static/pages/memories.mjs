// Memories: what is stored, is it right, and can it go?
import { Badge, Button, Check, Empty, Field, OtherSpaces, Page, Panel, Select, Text, Waiting, addressTime, count, fieldTime, html, plural, setQuery, timeField, useAddress, useClocks, useEffect, useLoad, useOperation, useRef, useSession, useState, visible } from "../lib.mjs";
import { EraseDialog, ForgetDialog } from "../parts/control.mjs";
import { MemoryDetail, Meta, planeName } from "../parts/memory.mjs";

const SIZE = 50;
const LATEST = 200;
const PLANES = ["transcript", "long_term", "procedural", "continuity", "execution", "summary", "archive", "records", "tool_experience"];
const ORDERS = [["latest", "Newest first"], ["stored", "In stored order"]];

const filtersOf = (query) => {
  const filters = {};
  if (query.get("plane")) filters.planes = [query.get("plane")];
  if (query.get("speaker")) filters.speakers = [query.get("speaker")];
  if (query.get("conversation")) filters.conversations = [query.get("conversation")];
  const since = addressTime(query.get("since"));
  const until = addressTime(query.get("until"));
  if (since !== null) filters.since = since;
  if (until !== null) filters.until = until;
  return filters;
};

export default function Memories() {
  const { space } = useSession();
  const { query } = useAddress();
  const operation = useOperation();
  const [trail, setTrail] = useState([]);
  const [chosen, setChosen] = useState(new Set());
  const [form, setForm] = useState(null);
  const [notice, setNotice] = useState(null);
  const words = (query.get("q") ?? "").trim();
  const order = query.get("order") ?? "latest";
  const secret = query.has("private");
  const hidden = query.has("hidden");
  const clocks = useClocks();
  const filters = { ...filtersOf(query), ...clocks };
  const isLatest = !words && order === "latest";
  const cursor = isLatest ? undefined : trail[trail.length - 1];
  // The latest are read anew for each page, and only up to the one behind it.
  const most = Math.min(LATEST, (trail.length + 2) * SIZE);
  const key = JSON.stringify([words, order, secret, hidden, filters]);
  useEffect(() => { setTrail([]); setChosen(new Set()); }, [key]);
  const { data, error, loading, at, reload } = useLoad(async ({ signal }) => {
    const shared = { limit: SIZE, filters, include_private: secret, ...(cursor ? { cursor } : {}) };
    if (!words) {
      const report = await operation("list", { ...shared, limit: isLatest ? most : SIZE, order, hidden: hidden ? "listed" : "left_out" }, {}, { signal });
      return { items: report.items, next: report.next_cursor, lost: report.lost };
    }
    const report = await operation("recall", { ...shared, query: words }, {}, { signal });
    return { items: report.hits, next: report.next_cursor, report };
  }, [operation, key, isLatest ? most : cursor]);
  const id = query.get("id");
  const found = data?.items ?? [];
  const begin = isLatest ? trail.length * SIZE : 0;
  const items = isLatest ? found.slice(begin, begin + SIZE) : found;
  const next = isLatest ? (begin + SIZE < found.length ? begin + SIZE : undefined) : data?.next;
  const all = items.length > 0 && items.every((hit) => chosen.has(hit.id));
  const toggle = (hit, on) => setChosen((before) => { const next = new Set(before); if (on) next.add(hit.id); else next.delete(hit.id); return next; });
  const done = (text) => { setForm(null); setChosen(new Set()); setNotice(text); reload(); };
  return html`
    <${Page} title="Memories" question="What is stored, is it right, and can it go?" loading=${loading} error=${error} at=${data && at}>
      <${Search} key=${space} query=${query} />
      ${notice && html`<div class="note good" role="status">${notice}</div>`}
      <div class=${id ? "split" : ""}>
        <${Panel} flush label="Memories">
          ${chosen.size > 0 && html`
            <div class="bulk"><strong>${plural(chosen.size, "selected", "selected")}</strong>
              <${Button} onClick=${() => setForm("forget")}>Forget<//><${Button} kind="danger" onClick=${() => setForm("erase")}>Erase…<//><${Button} kind="quiet" onClick=${() => setChosen(new Set())}>Clear selection<//></div>`}
          ${!data ? loading && html`<div class="inset"><${Waiting} /></div>` : items.length === 0 ? html`<${Nothing} query=${query} words=${words} report=${data.report} />` : html`
            <div class="pager first"><${Check} label=${data.report ? `${plural(items.length, "hit")}, best first` : plural(items.length, "memory", "memories")} checked=${all} onChange=${(on) => setChosen(on ? new Set(items.map((hit) => hit.id)) : new Set())} />
              ${data.report && html`<span class="soft small">${data.report.outcome === "nothing" ? "no good match among" : `${data.report.outcome} among`} ${plural(data.report.considered, "candidate")}</span>`}
              ${isLatest && html`<span class="soft small">${found.length < most ? `of ${count(found.length)}` : most < LATEST ? "of more" : `of the latest ${LATEST}; for older ones, use stored order`}</span>`}</div>
            <ul class="list">${items.map((hit) => html`
              <li key=${hit.id} class=${hit.id === id ? "current" : ""}><div class="item">
                <label class="check"><input type="checkbox" aria-label=${`Select: ${visible(hit.text ?? "").slice(0, 60)}`} checked=${chosen.has(hit.id)} onChange=${(event) => toggle(hit, event.currentTarget.checked)} /></label>
                <button type="button" class="open-row" aria-expanded=${hit.id === id ? "true" : "false"} onClick=${() => setQuery({ id: hit.id })}>
                  ${hit.text ? html`<${Text} text=${hit.text} lines="3" />` : html`<span class="soft">You may not read its text here.</span>`}</button>
                <div class="row between"><${Meta} hit=${hit} />${data.report && html`<span class="soft small" title="Estimated probability that it answers">${hit.score.toFixed(2)}</span>`}</div>
              </div></li>`)}</ul>
            ${(next || trail.length > 0) && html`
              <div class="pager"><${Button} onClick=${() => setTrail(trail.slice(0, -1))} disabled=${!trail.length}>Previous page<//><span class="soft small">page ${trail.length + 1}</span><${Button} onClick=${() => setTrail([...trail, next])} disabled=${!next}>Next page<//></div>`}`}
        <//>
        ${id && html`<${MemoryDetail} key=${id} id=${id} secret=${secret} onClose=${() => setQuery({ id: null })} onChange=${reload} />`}
      </div>
      ${form === "forget" && html`<${ForgetDialog} ids=${[...chosen]} onClose=${() => setForm(null)} onDone=${(report) => done(`${plural(report.decisions.filter((one) => one.outcome === "changed").length, "memory was", "memories were")} forgotten.`)} />`}
      ${form === "erase" && html`<${EraseDialog} request=${{ ids: [...chosen] }} title=${`Erase ${plural(chosen.size, "memory", "memories")}`} onClose=${() => setForm(null)} onDone=${(receipt) => { setChosen(new Set()); setNotice(`${plural(receipt.report.decisions.filter((one) => one.outcome === "changed").length, "memory was", "memories were")} erased.`); reload(); }} />`}
    <//>`;
}

function Search({ query }) {
  const [text, setText] = useState(query.get("q") ?? "");
  const more = useRef(null);
  const set = (name) => (event) => setQuery({ [name]: event.currentTarget.value, id: null });
  const time = (name) => (event) => setQuery({ [name]: fieldTime(event.currentTarget.value), id: null });
  const narrowed = ["speaker", "conversation", "since", "until", "hidden", "private"].some((name) => query.has(name));
  useEffect(() => { setText(query.get("q") ?? ""); }, [query.get("q")]);
  return html`
    <form class="form" role="search" onSubmit=${(event) => { event.preventDefault(); setQuery({ q: text.trim(), id: null }); }}>
      <div class="toolbar">
        <div class="grow"><input type="search" aria-label="Search memories" placeholder="Ask a question or search" value=${text} onInput=${(event) => { setText(event.currentTarget.value); if (!event.currentTarget.value) setQuery({ q: null }); }} /><button class="primary" type="submit">Search</button></div>
        <${Select} aria-label="Memory kind" value=${query.get("plane") ?? ""} options=${[["", "All kinds"], ...PLANES.map((plane) => [plane, planeName(plane)])]} onChange=${(plane) => setQuery({ plane, id: null })} />
        ${!query.get("q") && html`<${Select} aria-label="Order" value=${query.get("order") ?? "latest"} options=${ORDERS} onChange=${(order) => setQuery({ order: order === "latest" ? null : order, id: null })} />`}
      </div>
      <details ref=${more} open=${narrowed}><summary>Filters</summary>
        <div class="fields narrow">
          <${Field} label="Speaker"><input value=${query.get("speaker") ?? ""} onChange=${set("speaker")} /><//>
          <${Field} label="Conversation"><input value=${query.get("conversation") ?? ""} onChange=${set("conversation")} /><//>
          <${Field} label="Since"><input type="datetime-local" value=${timeField(addressTime(query.get("since")))} onChange=${time("since")} /><//>
          <${Field} label="Until"><input type="datetime-local" value=${timeField(addressTime(query.get("until")))} onChange=${time("until")} /><//>
          <div><${Check} label="Include hidden" checked=${query.has("hidden")} onChange=${(on) => setQuery({ hidden: on ? "1" : null })} /><${Check} label="Include private" checked=${query.has("private")} onChange=${(on) => setQuery({ private: on ? "1" : null })} /></div>
        </div>
      </details>
    </form>`;
}

const REASONS = {
  no_answer: "The nearest memories do not answer it.", below_min_score: "None reaches the minimum score.",
  held_back: "It does not seem to ask for what is remembered.",
  nothing_matches_filters: "No memory in the space passes the filters.", empty_query: "The query is empty.", empty_space: "The space is empty.",
};

function Nothing({ query, words, report }) {
  const named = [
    words && html`the words “<${Text} inline text=${words} />”`, query.get("plane") && `kind ${planeName(query.get("plane"))}`, query.get("speaker") && html`speaker <bdi>${query.get("speaker")}</bdi>`,
    query.get("conversation") && html`conversation <bdi>${query.get("conversation")}</bdi>`, query.get("since") && "a start date", query.get("until") && "an end date",
  ].filter(Boolean);
  return html`
    <${Empty} title=${named.length ? "Nothing found" : "Nothing is stored here yet"}>
      ${named.length ? html`Searched for ${named.map((part, place) => html`${place ? ", " : ""}${part}`)}. ${report?.reason ? REASONS[report.reason] : ""} ${!query.has("hidden") ? "Hidden memories were excluded." : ""} ${!query.has("private") ? "Private memories were excluded." : ""}` : html`What agents and programs store appears here.<${OtherSpaces} />`}
    <//>`;
}
