// Conversations: what was said, by whom, and where?
import { Button, Check, Empty, Failure, Page, Panel, State, Text, Waiting, ask, clock, count, day, html, linkTo, moment, plural, setQuery, useAddress, useArrival, useLoad, useOperation, useSession, useState, words } from "../lib.mjs";
import { EraseDialog, ForgetDialog } from "../parts/control.mjs";

/** When a turn was said, by its first message that has a time; where none has, when it was stored. */
const TurnTime = ({ turn }) => {
  const at = turn.messages.find((message) => message.at)?.at;
  const stored = `stored ${moment(turn.recorded_at)} (${clock(turn.recorded_at)})`;
  return html`<time class="soft" datetime=${new Date(at ?? turn.recorded_at).toISOString()} title=${stored}>${at ? moment(at) : `stored ${moment(turn.recorded_at)}`}</time>`;
};

const keyOf = (one) => JSON.stringify([one.channel, one.conversation]);

export default function Conversations() {
  const { query } = useAddress();
  const { space } = useSession();
  const { data, error, loading, at, reload } = useLoad(({ signal }) => ask("GET", `/conversations?space=${encodeURIComponent(space)}`, undefined, { signal }), [space]);
  const channel = query.get("channel") ?? "default";
  const conversation = query.get("conversation");
  const sorted = data?.items ?? [];
  const [find, setFind] = useState("");
  const shown = sorted.filter((one) => `${one.title ?? ""} ${one.conversation} ${one.speakers.join(" ")}`.toLowerCase().includes(find.toLowerCase()));
  return html`
    <${Page} title="Conversations" question="What was said, by whom, and where?" loading=${loading} error=${error} at=${data && at}>
      <div class=${conversation ? "split reading" : ""}>
        <${Panel} flush label="Conversations">
          ${!data ? loading && html`<div class="inset"><${Waiting} /></div>` : sorted.length === 0 ? html`<${Empty} title="No conversations yet" />` : html`
            <div class="pager first"><input type="search" aria-label="Find a conversation" placeholder="Find by title, name or speaker" value=${find} onInput=${(event) => setFind(event.currentTarget.value)} /></div>
            ${shown.length === 0 && html`<${Empty} title="No conversations found">None of ${plural(sorted.length, "conversation")} has “<bdi>${find}</bdi>” in its title, name or speakers.<//>`}
            <ul class="list">${shown.map((one) => html`
              <li key=${keyOf(one)} class=${one.conversation === conversation && one.channel === channel ? "current" : ""}>
                <a class="open-row" href=${linkTo("conversations", { channel: one.channel, conversation: one.conversation })}><div class="text"><bdi>${one.title || one.conversation}</bdi></div></a>
                <div class="meta"><span>${plural(one.turns, "turn")}</span><span>${day(one.first_at)}${day(one.last_at) !== day(one.first_at) ? ` to ${day(one.last_at)}` : ""}</span>${one.speakers.length > 0 && html`<bdi>${one.speakers.slice(0, 5).join(", ")}${one.speakers.length > 5 ? "…" : ""}</bdi>`}${one.channel !== "default" && html`<bdi>${one.channel}</bdi>`}</div>
              </li>`)}</ul>
            ${data.total > sorted.length && html`<div class="pager"><span class="soft">The latest ${count(sorted.length)} of ${count(data.total)}; search memories to find others.</span></div>`}`}
        <//>
        ${conversation && html`<${Ledger} key=${`${channel} ${conversation}`} channel=${channel} conversation=${conversation} onChange=${reload} />`}
      </div>
    <//>`;
}

function Ledger({ channel, conversation, onChange }) {
  const operation = useOperation();
  const [trail, setTrail] = useState([]);
  const [chosen, setChosen] = useState(new Set());
  const [form, setForm] = useState(null);
  const cursor = trail[trail.length - 1];
  const own = useArrival();
  const { data, error, loading, at, reload } = useLoad(
    ({ signal }) => operation("replay", { limit: 40, ...(cursor ? { cursor } : {}) }, { channel, conversation }, { signal }), [operation, channel, conversation, cursor]);
  const turns = data?.turns ?? [];
  const done = () => { setForm(null); setChosen(new Set()); reload(); onChange(); };
  const toggle = (id, on) => setChosen((before) => { const next = new Set(before); if (on) next.add(id); else next.delete(id); return next; });
  return html`
    <section ref=${own} tabindex="-1" class="panel flush ledger" aria-label="The conversation">
      <div class="panel-head"><div><h2><bdi>${conversation}</bdi></h2><span class="soft small">${data ? plural(data.total_turns, "turn") : ""}</span></div>
        <div class="row">${chosen.size > 0 && html`<${Button} onClick=${() => setForm("forget")}>Forget ${chosen.size}<//><${Button} kind="danger" onClick=${() => setForm("erase")}>Erase ${chosen.size}…<//>`}
          <button type="button" class="icon" aria-label="Close" onClick=${() => setQuery({ channel: null, conversation: null })}>✕</button></div></div>
      ${error && html`<div class="inset"><${Failure} error=${error} at=${data && at} /></div>`}
      ${!data ? loading && html`<div class="inset"><${Waiting} /></div>` : turns.length === 0 ? html`<${Empty} title="No turns here">It may have been erased.<//>` : html`
        ${(data.has_more || trail.length > 0) && html`<div class="pager first"><${Button} disabled=${!data.has_more} onClick=${() => setTrail([...trail, data.next_cursor])}>Earlier<//><span class="soft small">turns ${count(turns[0].sequence)} to ${count(turns[turns.length - 1].sequence)}</span><${Button} disabled=${!trail.length} onClick=${() => setTrail(trail.slice(0, -1))}>Later<//></div>`}
        ${turns.map((turn) => html`
          <article key=${turn.id} class="turn">
            <div class="row between"><${Check} label=${html`Turn ${turn.sequence} <${TurnTime} turn=${turn} />`} checked=${chosen.has(turn.id)} onChange=${(on) => toggle(turn.id, on)} />
              <div class="row">${turn.lifecycle !== "active" && html`<${State} state=${turn.lifecycle} />`}${turn.delivery !== "delivered" && html`<${State} state=${turn.delivery} />`}<a class="small" href=${linkTo("memories", { id: turn.id })}>Open</a></div></div>
            ${turn.messages.map((message, place) => html`
              <div class="said" key=${place}><span title=${message.at ? `${moment(message.at)} (${clock(message.at)})` : ""}><bdi>${message.speaker || words(message.role)}</bdi></span>
                <div>${message.forgotten ? html`<span class="soft">forgotten</span>` : message.text ? html`<${Text} text=${message.text} whole />` : html`<span class="soft">you may not read its text here</span>`}</div></div>`)}
          </article>`)}`}
      ${form === "forget" && html`<${ForgetDialog} ids=${[...chosen]} onClose=${() => setForm(null)} onDone=${done} />`}
      ${form === "erase" && html`<${EraseDialog} request=${{ ids: [...chosen] }} title=${`Erase ${plural(chosen.size, "turn")}`} onClose=${() => setForm(null)} onDone=${() => { setChosen(new Set()); reload(); onChange(); }} />`}
    </section>`;
}
