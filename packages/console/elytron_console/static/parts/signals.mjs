// What spoke for a hit: its signals as bars, the strongest first.
import { html, words } from "../lib.mjs";

export function Signals({ signals }) {
  const rows = Object.entries(signals ?? {}).sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
  const most = Math.max(...rows.map(([, value]) => Math.abs(value)), 1e-9);
  if (!rows.length) return html`<p class="small">No signal is known.</p>`;
  return html`
    <div class="signals">${rows.map(([name, value]) => html`
      <div class="signal" key=${name}><span>${words(name)}</span><div><div class=${`signal-bar${value < 0 ? " minus" : ""}`} style=${{ width: `${(Math.abs(value) / most) * 100}%` }}></div></div><span class="num">${Number(value.toFixed(3))}</span></div>`)}</div>`;
}
