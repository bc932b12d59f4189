// A strip of time: when a fact held, as far as is believed.
import { day, html } from "../lib.mjs";

const begin = (fact) => fact.valid_from ?? fact.observed_at;

/** The time that strips of these facts span, from the first of them to `now`. */
export const reach = (facts, now) => [Math.min(now - 86_400_000, ...facts.map(begin)), now];

export function Strip({ fact, span: [first, last], mark }) {
  const place = (at) => Math.max(0, Math.min(100, ((at - first) / (last - first)) * 100));
  const from = place(begin(fact));
  const kind = fact.state === "active" ? "held" : "was";
  const until = place(fact.valid_to ?? (fact.closed_at && fact.state !== "active" ? fact.closed_at : last));
  const held = fact.state === "active" || fact.state === "superseded" || fact.state === "invalidated";
  return html`
    <svg class="strip" viewBox="0 0 100 14" preserveAspectRatio="none" role="img" aria-label=${`True ${fact.valid_from ? `from ${day(fact.valid_from)}` : `from an unknown time, seen ${day(fact.observed_at)},`} to ${fact.valid_to ? day(fact.valid_to) : "now"}`}>
      <rect class="rail" x="0" y="5" width="100" height="4" />
      ${fact.valid_from === undefined && html`<rect class=${`${kind} unknown`} x="0" y=${held ? 3 : 5} width=${from} height=${held ? 8 : 4} />`}
      <rect class=${kind} x=${from} y=${held ? 3 : 5} width=${Math.max(0.6, until - from)} height=${held ? 8 : 4} />
      ${mark !== undefined && html`<line class="now" x1=${place(mark)} x2=${place(mark)} y1="0" y2="14" />`}
    </svg>`;
}
