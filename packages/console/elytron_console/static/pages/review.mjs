// Review queue: which proposed beliefs await a decision, and on what evidence?
import { Badge, Button, Check, Dialog, Empty, Failure, Field, Page, Panel, Select, State, Text, Waiting, html, linkTo, moment, plural, setQuery, useAction, useAddress, useLoad, useOperation, useState, words } from "../lib.mjs";

const STATES = [["", "Pending"], ["accepted", "Accepted"], ["rejected", "Rejected"]];
const TARGETS = { long_term: "fact", procedural: "skill", private_garden: "private document", soul: "persona identity", operator_diagnostic: "note for operators" };

export default function Review() {
  const { query } = useAddress();
  const operation = useOperation();
  const [trail, setTrail] = useState([]);
  const [form, setForm] = useState(null);
  const state = query.get("state") ?? "";
  const secret = query.has("private");
  const cursor = trail[trail.length - 1];
  const { data, error, loading, at, reload } = useLoad(({ signal }) => operation("list_candidates", {
    limit: 50, include_private: secret, ...(state ? { states: [state] } : {}), ...(cursor ? { cursor } : {}),
  }, {}, { signal }), [operation, state, secret, cursor]);
  return html`
    <${Page} title="Review queue" question="Which proposed beliefs await a decision, and on what evidence?" loading=${loading} error=${error} at=${data && at}
      actions=${html`<${Select} aria-label="State" value=${state} options=${STATES} onChange=${(value) => { setTrail([]); setQuery({ state: value }); }} /><${Check} label="Include private" checked=${secret} onChange=${(on) => setQuery({ private: on ? "1" : null })} />`}>
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Panel} flush label="Candidates">
          ${data.items.length === 0 ? html`<${Empty} title=${state ? `None ${state}` : "Nothing to review"}>Proposals that admission neither accepts nor refuses appear here. ${data.withheld ? `${plural(data.withheld, "private one was", "private ones were")} excluded.` : ""}<//>` : html`
            <ul class="list">${data.items.map((one) => html`<${Candidate} key=${one.id} of=${one} onForm=${setForm} />`)}</ul>
            ${(data.has_more || trail.length > 0) && html`<div class="pager"><${Button} disabled=${!trail.length} onClick=${() => setTrail(trail.slice(0, -1))}>Previous page<//><${Button} disabled=${!data.has_more} onClick=${() => setTrail([...trail, data.next_cursor])}>Next page<//></div>`}`}
        <//>`}
      ${form && html`<${Decide} ...${form} onClose=${() => setForm(null)} onDone=${() => { setForm(null); reload(); }} />`}
    <//>`;
}

const contentOf = (proposal) => proposal.content ?? proposal.text ?? "";

function Candidate({ of, onForm }) {
  const { draft } = of;
  const { proposal } = draft;
  const waits = of.state === "deferred" || of.state === "handed_off";
  return html`
    <li>
      <div class="row between"><div class="meta"><${Badge} tone="accent">${TARGETS[proposal.target] ?? words(proposal.target)}<//>${proposal.topic && html`<bdi>${proposal.topic}</bdi>`}${proposal.fact_kind && html`<span>${words(proposal.fact_kind)}</span>`}${!waits && html`<${State} state=${of.state} />`}${draft.privacy === "private" && html`<${Badge} tone="warn">private<//>`}</div><span class="soft small">${moment(of.proposed_at)}</span></div>
      <${Text} text=${`${proposal.operation === "delete" ? "Delete: " : ""}${contentOf(proposal)}`} whole />
      <div class="meta"><span>from ${draft.origins.length ? draft.origins.map(words).join(", ") : "an unnamed origin"}</span><span>${words(draft.authority)}</span><a href=${linkTo("conversations", { channel: of.channel, conversation: of.conversation })}><bdi>${of.conversation}</bdi></a>${draft.citations.map((id) => html`<a key=${id} class="id" href=${linkTo("memories", { id })}>${id}</a>`)}</div>
      ${of.reason && html`<p class="small">Reason for review: <bdi>${of.reason}</bdi>${draft.judgement?.reason ? html`; proposer: <bdi>${draft.judgement.reason}</bdi>` : ""}</p>`}
      ${waits && html`<div class="row"><${Button} onClick=${() => onForm({ of, resolution: "accept" })}>Accept<//><${Button} onClick=${() => onForm({ of, resolution: "reject" })}>Reject<//></div>`}
    </li>`;
}

function Decide({ of, resolution, onClose, onDone }) {
  const operation = useOperation();
  const [reason, setReason] = useState("");
  const { busy, error, run } = useAction(async () => {
    const report = await operation("resolve_candidate", { id: of.id, resolution, reason });
    if (!report.changed) throw new Error(report.reason || "It is still pending");
    onDone();
  });
  return html`
    <${Dialog} title=${resolution === "accept" ? "Accept the proposal" : "Reject the proposal"} onClose=${onClose}>
      <form class="form" onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <${Text} text=${contentOf(of.draft.proposal)} lines="5" />
        <p class="soft">${resolution === "accept" ? "It becomes a belief if the guards permit it." : "It will not be proposed again for the same reason."}</p>
        <${Field} label="Reason"><input value=${reason} maxlength="400" onInput=${(event) => setReason(event.currentTarget.value)} /><//>
        <${Failure} error=${error} />
        <div class="row"><button class="primary" type="submit" disabled=${busy}>${resolution === "accept" ? "Accept" : "Reject"}</button><button type="button" onClick=${onClose}>Cancel</button></div>
      </form>
    <//>`;
}
