// Timeline: what was true then, and what was believed then?
import { Button, Empty, Page, Panel, State, Text, Waiting, count, day, fieldTime, html, linkTo, moment, plural, timeField, useEffect, useId, useLoad, useOperation, useSession, useState, words } from "../lib.mjs";
import { Meta } from "../parts/memory.mjs";
import { Strip, reach } from "../parts/strip.mjs";

const MOST = 500;
const DAY = 86_400_000;

function useSettled(value, ms = 200) {
  const [settled, setSettled] = useState(value);
  useEffect(() => { const timer = setTimeout(() => setSettled(value), ms); return () => clearTimeout(timer); }, [value]);
  return settled;
}

export default function Timeline() {
  const { clocks, setClocks } = useSession();
  const operation = useOperation();
  const [asOf, setAsOf] = useState(clocks.asOf);
  const [knownAt, setKnownAt] = useState(clocks.knownAt);
  const settled = useSettled(JSON.stringify([asOf, knownAt]));
  useEffect(() => { setClocks({ asOf, knownAt }); }, [settled]);
  const [now] = useState(Date.now());
  const whole = useLoad(async ({ signal }) => {
    let items = [];
    let cursor;
    do {
      const page = await operation("list_facts", { states: [], limit: 250, include_private: true, ...(cursor ? { cursor } : {}) }, {}, { signal });
      items = items.concat(page.items);
      cursor = page.has_more ? page.next_cursor : undefined;
    } while (cursor && items.length < MOST);
    const first = await operation("list", { limit: 1, order: "stored" }, {}, { signal });
    return { items, first: first.items[0]?.at, clipped: Boolean(cursor) };
  }, [operation]);
  const then = useLoad(async ({ signal }) => {
    const filters = { planes: ["long_term"], ...(asOf === null ? {} : { as_of: asOf }), ...(knownAt === null ? {} : { known_at: knownAt }) };
    const held = await operation("list", { limit: MOST, filters, include_private: true }, {}, { signal });
    const said = await operation("list", { limit: 8, order: "latest", filters: { planes: ["transcript"], until: asOf ?? now } }, {}, { signal });
    return { held: new Set(held.items.map((hit) => hit.id)), said: said.items };
  }, [operation, settled]);
  const facts = whole.data?.items ?? [];
  const [first] = reach(facts, now);
  const span = [Math.min(first, whole.data?.first ?? first) - DAY, now];
  const lanes = [...facts].sort((one, other) => (one.topic === other.topic ? one.recorded_at - other.recorded_at : one.topic < other.topic ? -1 : 1));
  return html`
    <${Page} title="Timeline" question="What was true then, and what was believed then?" loading=${whole.loading} error=${whole.error ?? then.error} at=${whole.data && whole.at}
      actions=${(asOf !== null || knownAt !== null) && html`<${Button} onClick=${() => { setAsOf(null); setKnownAt(null); }}>Back to now<//>`}>
      <${Panel} label="Dates"><div class="sliders">
        <${Clock} label="True on" told="the world's clock" value=${asOf} span=${span} onChange=${setAsOf} />
        <${Clock} label="As known on" told="the memory's clock" value=${knownAt} span=${span} onChange=${setKnownAt} />
      </div><p class="small">Every list in the console follows these dates until you reset them to now.</p><//>
      <div class="grid calls">
        <${Panel} title="Facts" flush aside=${then.data && whole.data && html`${plural(then.data.held.size, "fact")} true then, of ${plural(facts.length, "version")}${whole.data.clipped ? ` (the first ${MOST})` : ""}`}>
          ${!whole.data ? whole.loading && html`<div class="inset"><${Waiting} /></div>` : lanes.length === 0 ? html`<${Empty} title="No facts yet" />` : html`
            <div>${lanes.map((fact) => html`
              <div key=${fact.id} class=${`lane${then.data && !then.data.held.has(fact.id) ? " off" : ""}`}>
                <div><a href=${linkTo("facts", { id: fact.id, states: "all" })}><bdi>${fact.topic}</bdi></a> ${fact.state !== "active" && html`<${State} state=${fact.state} />`}<${Text} text=${fact.content} lines="2" /></div>
                <${Strip} fact=${fact} span=${span} mark=${asOf ?? now} />
              </div>`)}</div>
            <div class="lane"><span></span><div class="axis"><span>${day(span[0])}</span><span>${day((span[0] + span[1]) / 2)}</span><span>today</span></div></div>`}
        <//>
        <${Panel} title="Latest messages by then" flush>
          ${!then.data ? then.loading && html`<div class="inset"><${Waiting} /></div>` : then.data.said.length === 0 ? html`<${Empty} title="No messages">There are no messages before ${moment(asOf ?? now)}.<//>` : html`
            <ul class="list">${then.data.said.map((hit) => html`<li key=${hit.id}><a class="open-row" href=${linkTo("memories", { id: hit.id })}><${Text} text=${hit.text} lines="2" /></a><${Meta} hit=${hit} /></li>`)}</ul>`}
        <//>
      </div>
    <//>`;
}

function Clock({ label, told, value, span: [first, last], onChange }) {
  const id = useId();
  const step = Math.max(60_000, Math.round((last - first) / 1000));
  const set = (at) => onChange(at === null || at >= last - step ? null : at);
  return html`
    <div class="slider">
      <div class="row between"><label for=${id}>${label} <span class="soft small">${told}</span></label><output for=${id}>${value === null ? "now" : moment(value)}</output></div>
      <input id=${id} type="range" min=${first} max=${last} step=${step} value=${value ?? last} aria-valuetext=${value === null ? "now" : moment(value)} onInput=${(event) => set(Number(event.currentTarget.value))} />
      <input type="datetime-local" aria-label=${`${label}, exactly`} value=${timeField(value)} onChange=${(event) => set(fieldTime(event.currentTarget.value))} />
    </div>`;
}
