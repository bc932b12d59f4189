// One memory in full: its text, what it is worth, on what it rests, its history, and what can be done to it.
import { Badge, Button, Failure, Pairs, State, Text, Waiting, day, html, linkTo, moment, setQuery, useEffect, useArrival, useLoad, useOperation, useState, words } from "../lib.mjs";
import { Around } from "./around.mjs";
import { EraseDialog, FACT_ACTIONS, FactDialog, ForgetDialog } from "./control.mjs";

const PLANES = {
  transcript: "message", long_term: "fact", procedural: "skill", continuity: "capsule", execution: "work state",
  summary: "summary", archive: "note", private_garden: "private document", subject: "subject", candidate: "candidate",
  tool_experience: "tool experience", records: "record",
};
export const planeName = (plane) => PLANES[plane] ?? words(plane);
export const Plane = ({ plane }) => html`<${Badge} tone=${plane === "transcript" ? "" : "accent"}>${planeName(plane)}<//>`;

/** The line below a memory's text: when, who, where, and how far it may be relied on. */
export const Meta = ({ hit }) => html`
  <div class="meta">
    <${Plane} plane=${hit.plane} />
    ${hit.at !== undefined && html`<span>${moment(hit.recorded_at ?? hit.at)}</span>`}
    ${hit.speaker && html`<bdi>${hit.speaker}</bdi>`}
    ${!hit.speaker && hit.role && html`<span>${words(hit.role)}</span>`}
    ${hit.kind && html`<span>${words(hit.kind)}</span>`}
    ${hit.title && html`<bdi>${hit.title}</bdi>`}
    ${hit.conversation && hit.plane === "transcript" && html`<a href=${linkTo("conversations", { channel: hit.channel, conversation: hit.conversation })}><bdi>${hit.conversation}</bdi></a>`}
    ${hit.trust && hit.trust !== "vouched" && html`<${State} state=${hit.trust} />`}
    ${hit.privacy === "private" && html`<${Badge} tone="warn">private<//>`}
  </div>`;

export function MemoryDetail({ id, secret, onClose, onChange }) {
  const operation = useOperation();
  const { data, error, loading, at, reload } = useLoad(async ({ signal }) => {
    const asked = { id, include_private: secret };
    const [hit, history] = await Promise.all([
      operation("get", asked, {}, { signal }).catch((refusal) => { if (refusal.status === 404) return null; throw refusal; }),
      operation("history", asked, {}, { signal }).catch(() => ({ items: [] })),
    ]);
    const fact = hit?.plane === "long_term" || !hit ? await operation("get_fact", asked, {}, { signal }).then((report) => report.fact, () => null) : null;
    if (!hit && !fact) throw Object.assign(new Error("No memory here has this id, or you may not read it."), { status: 404 });
    return { hit: hit ?? { id, plane: "long_term", text: fact.content, kind: fact.kind, at: fact.observed_at }, fact, history: history.items };
  }, [operation, id, secret]);
  const [form, setForm] = useState(null);
  const own = useArrival();
  useEffect(() => { if (own.current.getBoundingClientRect().top < 56) own.current.scrollIntoView({ block: "start" }); }, []);
  // A correction makes a new version with an id of its own, which is what people want to see.
  const changed = (report) => { setForm(null); if (report?.new_id) setQuery({ id: report.new_id }, { quiet: true }); else reload(); onChange?.(); };
  return html`
    <section ref=${own} tabindex="-1" class="detail panel" aria-label="The memory">
      <div class="detail-head"><div class="meta">${data ? html`<${Plane} plane=${data.hit.plane} />` : null}<span class="id">${id}</span></div>
        <button type="button" class="icon" aria-label="Close" onClick=${onClose}>✕</button></div>
      <${Failure} error=${error} at=${data && at} />
      ${!data ? loading && html`<${Waiting} />` : html`<${Whole} ...${data} onForm=${setForm} />`}
      ${form?.kind === "forget" && html`<${ForgetDialog} ids=${[id]} undo=${form.undo} onClose=${() => setForm(null)} onDone=${changed} />`}
      ${form?.kind === "erase" && html`<${EraseDialog} request=${{ ids: [id] }} title="Erase this memory" onClose=${() => { setForm(null); if (form.done) onClose(); }} onDone=${() => { form.done = true; onChange?.(); }}><${Text} text=${data.hit.text} lines="3" /><//>`}
      ${form?.kind === "fact" && html`<${FactDialog} fact=${data.fact} action=${form.action} onClose=${() => setForm(null)} onDone=${changed} />`}
    </section>`;
}

function Whole({ hit, fact, history, onForm }) {
  const last = history[history.length - 1];
  const forgotten = last?.event === "forgotten" || fact?.state === "forgotten";
  const metadata = Object.entries(hit.metadata ?? {});
  return html`
    <${Text} key=${hit.id} text=${hit.text} whole />
    <div class="row">
      ${fact && !fact.closed_at && FACT_ACTIONS.map(([name, label]) => html`<${Button} key=${name} onClick=${() => onForm({ kind: "fact", action: name })}>${label}<//>`)}
      <${Button} onClick=${() => onForm({ kind: "forget", undo: forgotten })}>${forgotten ? "Restore" : "Forget"}<//>
      <${Button} kind="danger" onClick=${() => onForm({ kind: "erase" })}>Erase…<//>
      <a class="small" href=${linkTo("recall", { why: hit.id })}>Why isn't it recalled?</a>
    </div>
    ${hit.plane === "transcript" && html`<p class="small">Messages are never edited: forgetting hides one, erasing deletes it. Facts extracted from it can be corrected.</p>`}
    <hr />
    <${Pairs} rows=${[
      ["Said or seen", hit.recorded_at === undefined ? moment(hit.at) : html`claimed ${moment(hit.at)}; ordered by recording time`],
      ["Recorded", hit.recorded_at !== undefined && moment(hit.recorded_at)], ["Speaker", hit.speaker && html`<bdi>${hit.speaker}</bdi>`], ["Role", words(hit.role)],
      ["Conversation", hit.conversation && html`<a href=${linkTo("conversations", { channel: hit.channel, conversation: hit.conversation })}><bdi>${hit.conversation}</bdi></a>`],
      ["Title", !fact && hit.title && html`<bdi>${hit.title}</bdi>`], ["Trust", hit.trust && html`<${State} state=${hit.trust} />`],
      ["Freshness", hit.freshness && html`<${State} state=${hit.freshness} />`],
      ["Tags", hit.tags?.length ? html`<bdi>${hit.tags.join(", ")}</bdi>` : null],
      ...(fact ? [
        ["State", html`<${State} state=${fact.state} />`], ["Topic", html`<bdi>${fact.topic}</bdi>`], ["Kind", words(fact.kind)],
        ["True", `${fact.valid_from ? day(fact.valid_from) : "always"} to ${fact.valid_to ? day(fact.valid_to) : "now"}`],
        ["Believed", `${moment(fact.recorded_at)} to ${fact.closed_at ? moment(fact.closed_at) : "now"}`],
        ["Confirmed", moment(fact.confirmed_at)], ["Evidence", fact.evidence_count],
        ["Vouched for by", words(fact.authority)], ["Confidence", words(fact.confidence)], ["Privacy", words(fact.privacy)],
        ["Last shown", fact.last_used_at ? moment(fact.last_used_at) : "never, as far as is known"],
        ["Closed because", fact.closed_because && html`<bdi>${fact.closed_because}</bdi>`],
        ["Replaced by", fact.superseded_by && html`<a class="id" href=${linkTo("facts", { id: fact.superseded_by, states: "all" })}>${fact.superseded_by}</a>`],
        ["Replaces", fact.supersedes && html`<a class="id" href=${linkTo("facts", { id: fact.supersedes, states: "all" })}>${fact.supersedes}</a>`],
      ] : []),
      ["Sources", (fact?.evidence ?? hit.citations ?? []).filter((one) => one !== hit.id).length ? html`${(fact?.evidence ?? hit.citations).filter((one) => one !== hit.id).map((one) => html`<a key=${one} class="id" href=${linkTo("memories", { id: one })}>${one}</a> `)}` : null],
      ...metadata.map(([name, value]) => [html`<bdi>${name}</bdi>`, html`<${Text} inline text=${typeof value === "string" ? value : JSON.stringify(value)} />`]),
    ]} />
    ${(fact || hit.plane === "transcript") && html`<${Around} id=${hit.id} />`}
    ${history.length > 0 && html`
      <div><h3>History</h3><ul class="history">${history.map((item, place) => html`
        <li key=${place}><span><strong>${words(item.event)}</strong> <span class="soft">${moment(item.at)}${item.claimed_at !== undefined ? html`, claimed ${moment(item.claimed_at)}` : ""}${item.by ? html`, by <bdi>${item.by}</bdi>` : ""}</span></span>
          ${item.text && item.text !== hit.text && html`<${Text} text=${item.text} lines="3" />`}
          ${item.reason && item.reason !== item.event && html`<span class="soft"><${Text} inline text=${item.reason} /></span>`}</li>`)}</ul></div>`}`;
}
