// Recall lab: why was this memory a hit and that one not?
import { Badge, Button, Check, Empty, Failure, Field, Page, Panel, Select, Text, Waiting, count, html, linkTo, plural, setQuery, useAction, useAddress, useClocks, useEffect, useLoad, useOperation, useState, words } from "../lib.mjs";
import { Meta, planeName } from "../parts/memory.mjs";
import { Signals } from "../parts/signals.mjs";

const BEYOND = 20;
const PLANES = ["", "transcript", "long_term", "procedural", "continuity", "archive"];
const USUAL = { limit: "10", min: "0", plane: "", diversity: "auto", tokens: "", neighbours: "0" };
const ABSENCES = {
  shown: "It is among the hits.", unknown: "No memory here has this id, or you may not read it.", hidden: "It was forgotten, archived or replaced.",
  held_back: "The gate holds it back.", filtered: "The filters exclude it.", no_match: "Neither it nor its neighbours answer the query.", min_score: "Its score is below the minimum.",
  earlier_page: "It is on an earlier page.", limit: "It answers, but the hit limit was reached first.", tokens: "It answers, but the token limit was reached first.",
};

const COMPARED = {
  compared: "Compared: words, built-in vectors, and the embedder's vectors.",
  none: "Compared: words and built-in vectors. No embedder is set.",
  not_yet: "Compared: words and built-in vectors. No memory here has a vector from the embedder yet.",
  failed: "Compared: words and built-in vectors. The embedder did not respond in time.",
  other_language: "Compared: words and built-in vectors. The embedder does not support the language of the question.",
  other_model: "Compared: words and built-in vectors. The stored vectors come from another embedder.",
};

const settingsOf = (query, side) => Object.fromEntries(Object.entries(USUAL).map(([name, usual]) => [name, query.get(`${side}${name}`) ?? usual]));

const requestOf = (settings, { q, secret, clocks, why }) => ({
  query: q, limit: Number(settings.limit) || 10, min_score: Number(settings.min) || 0, diversity: settings.diversity, neighbours: Number(settings.neighbours) || 0,
  include_private: secret, filters: { ...(settings.plane ? { planes: [settings.plane] } : {}), ...clocks },
  ...(Number(settings.tokens) ? { max_tokens: Number(settings.tokens) } : {}), ...(why ? { why_not: [why] } : {}),
});

export default function RecallLab() {
  const { query } = useAddress();
  const [text, setText] = useState(query.get("q") ?? "");
  useEffect(() => { setText(query.get("q") ?? ""); }, [query.get("q")]);
  const q = query.get("q") ?? "";
  const compared = query.has("compare");
  return html`
    <${Page} title="Recall lab" question="Why was this memory a hit and that one not?"
      actions=${html`<${Check} label="Compare two settings" checked=${compared} onChange=${(on) => setQuery({ compare: on ? "1" : null })} /><${Check} label="Include private" checked=${query.has("private")} onChange=${(on) => setQuery({ private: on ? "1" : null })} />`}>
      <form class="toolbar" role="search" onSubmit=${(event) => { event.preventDefault(); setQuery({ q: text.trim() }); }}>
        <div class="grow"><input type="search" aria-label="Question" placeholder="What an agent would ask" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /><button class="primary" type="submit">Recall</button></div>
      </form>
      ${query.get("why") && html`<${WhyNot} key=${query.get("why")} id=${query.get("why")} q=${q} />`}
      <div class="lab"><${Side} side="a" title=${compared ? "Settings A" : "Hits"} q=${q} />${compared && html`<${Side} side="b" title="Settings B" q=${q} />`}</div>
      ${q && html`<${Missing} />`}
    <//>`;
}

function Settings({ side }) {
  const { query } = useAddress();
  const settings = settingsOf(query, side);
  const set = (name) => (event) => setQuery({ [`${side}${name}`]: event.currentTarget.value === USUAL[name] ? null : event.currentTarget.value }, { quiet: true });
  const changed = Object.entries(settings).some(([name, value]) => value !== USUAL[name]);
  return html`
    <details open=${changed || query.has("compare")}><summary>Settings</summary><div class="fields narrow">
      <${Field} label="Hits"><input type="number" min="1" max="100" value=${settings.limit} onChange=${set("limit")} /><//>
      <${Field} label="Minimum score"><input type="number" min="0" max="1" step="0.05" value=${settings.min} onChange=${set("min")} /><//>
      <${Field} label="Maximum tokens"><input type="number" min="1" placeholder="any" value=${settings.tokens} onChange=${set("tokens")} /><//>
      <${Field} label="Neighbours"><input type="number" min="0" max="5" value=${settings.neighbours} onChange=${set("neighbours")} /><//>
      <${Field} label="Kind"><${Select} value=${settings.plane} options=${PLANES.map((plane) => [plane, plane ? planeName(plane) : "all kinds"])} onChange=${(plane) => setQuery({ [`${side}plane`]: plane }, { quiet: true })} /><//>
      <${Field} label="Diversity"><${Select} value=${settings.diversity} options=${[["auto", "automatic"], ["off", "off"], ["wide", "wide"]]} onChange=${(value) => setQuery({ [`${side}diversity`]: value === "auto" ? null : value }, { quiet: true })} /><//>
    </div></details>`;
}

const useRequest = (side, q) => {
  const { query } = useAddress();
  const clocks = useClocks();
  return requestOf(settingsOf(query, side), { q, secret: query.has("private"), clocks, why: query.get("why") });
};

function Side({ side, title, q }) {
  const operation = useOperation();
  const request = useRequest(side, q);
  const { data, error, loading, at } = useLoad(async ({ signal }) => {
    if (!q) return null;
    const report = await operation("recall", request, {}, { signal });
    const { why_not, ...plain } = request;
    const behind = report.next_cursor ? await operation("recall", { ...plain, limit: BEYOND, cursor: report.next_cursor }, {}, { signal }).catch(() => null) : null;
    return { report, beyond: behind?.hits ?? [] };
  }, [operation, JSON.stringify(request)]);
  const report = data?.report;
  return html`
    <${Panel} title=${title} flush aside=${report && html`<${Badge} tone=${report.outcome === "found" ? "good" : report.outcome === "doubtful" ? "warn" : "bad"}>${report.outcome}<//> ${plural(report.considered, "candidate")}, ${report.intent}`}>
      <div class="inset"><${Settings} side=${side} /></div>
      <${Failure} error=${error} at=${data && at} />
      ${!q ? html`<${Empty} title="Ask a question">Each hit shows its signals, and the list shows the cutoff.<//>` : !report ? loading && html`<div class="inset"><${Waiting} /></div>` : html`
        <p class="inset small">${COMPARED[report.vectors] ?? words(report.vectors)}</p>
        ${report.hits.length === 0 ? html`<${Empty} title="Nothing found">${words(report.reason)}<//>` : html`<ol class="list">${report.hits.map((hit, place) => html`<${Hit} key=${hit.id} hit=${hit} place=${place + 1} />`)}</ol>`}
        ${(data.beyond.length > 0 || report.cut !== undefined) && html`<div class="cut"><span>Cutoff${report.clipped.length ? ` by ${report.clipped.map((clip) => `${words(clip.reason)} (${count(clip.dropped)} left out)`).join(", ")}` : ""}${report.cut !== undefined ? `: the best hit below scores ${report.cut.toFixed(2)}` : ""}</span></div>`}
        ${data.beyond.length > 0 && html`<ol class="list beyond">${data.beyond.map((hit, place) => html`<${Hit} key=${hit.id} hit=${hit} place=${report.hits.length + place + 1} />`)}</ol>`}`}
    <//>`;
}

function Hit({ hit, place }) {
  return html`
    <li><div class="row between"><a class="open-row" style=${{ flex: "1 1 200px" }} href=${linkTo("memories", { id: hit.id })}><${Text} text=${hit.text} lines="3" /></a></div>
      <div class="row between"><${Meta} hit=${hit} /><span class="soft small">${place}. ${hit.score.toFixed(2)}</span></div>
      <details><summary>Signals</summary><${Signals} signals=${hit.signals} /></details></li>`;
}

function WhyNot({ id, q }) {
  const operation = useOperation();
  const request = useRequest("a", q);
  const { data, error, loading, at } = useLoad(async ({ signal }) => {
    const hit = await operation("get", { id, include_private: true }, {}, { signal }).catch(() => null);
    const report = q ? await operation("recall", { ...request, why_not: [id] }, {}, { signal }) : null;
    return { hit, told: report?.why_not[0] };
  }, [operation, JSON.stringify(request), id]);
  return html`
    <${Panel} title="Why wasn't this one found?" aside=${html`<span class="id">${id}</span><button type="button" class="icon" aria-label="Close" onClick=${() => setQuery({ why: null })}>✕</button>`}>
      <${Failure} error=${error} at=${data && at} />
      ${!data ? loading && html`<${Waiting} />` : html`
        ${data.hit && html`<${Text} text=${data.hit.text} lines="3" />`}
        ${data.told ? html`<p><strong>${ABSENCES[data.told.absence] ?? words(data.told.absence)}</strong> ${data.told.place !== undefined ? `Rank ${data.told.place}` : ""}${data.told.score !== undefined ? `, score ${data.told.score.toFixed(2)}` : ""}</p>
          ${Object.keys(data.told.signals).length > 0 && html`<${Signals} signals=${data.told.signals} />`}`
          : html`<p class="soft">Enter the question that should have found it above.</p>`}`}
    <//>`;
}

function Missing() {
  const operation = useOperation();
  const [text, setText] = useState("");
  const [found, setFound] = useState(null);
  const { busy, error, run } = useAction(async () => setFound(await operation("recall", { query: text, limit: 5, include_private: true })));
  return html`
    <${Panel} title="Missing a memory?">
      <form class="form" onSubmit=${(event) => { event.preventDefault(); if (text.trim()) run(); }}>
        <div class="toolbar"><div class="grow"><input aria-label="Words in the missing memory" placeholder="Words in the missing memory" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /><button type="submit" disabled=${busy}>Find</button></div></div>
        <${Failure} error=${error} />
        ${found && (found.hits.length ? html`<ul class="form">${found.hits.map((hit) => html`<li key=${hit.id} class="row between"><span style=${{ flex: "1 1 240px" }}><${Text} text=${hit.text} lines="2" /></span><${Button} onClick=${() => { setQuery({ why: hit.id }); scrollTo(0, 0); }}>Why not?<//></li>`)}</ul>` : html`<p class="soft">No memory matches these words.</p>`)}
      </form>
    <//>`;
}
