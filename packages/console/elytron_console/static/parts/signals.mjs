// What spoke for a hit: its signals as bars, the strongest first.
import { html, useSession, words } from "../lib.mjs";

export function Signals({ signals }) {
  const { signals: meanings } = useSession();
  const rows = Object.entries(signals ?? {}).sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
  const most = Math.max(...rows.map(([, value]) => Math.abs(value)), 1e-9);
  if (!rows.length) return html`<p class="small">No signals are available.</p>`;
  return html`
    <div class="signals">${rows.map(([name, value]) => html`
      <div class="signal" key=${name}><span title=${meanings[name]}>${words(name)}</span><div><div class=${`signal-bar${value < 0 ? " minus" : ""}`} style=${{ width: `${(Math.abs(value) / most) * 100}%` }}></div></div><span class="num">${Number(value.toFixed(3))}</span></div>`)}
      <details><summary>What these signals mean</summary><dl class="meanings">${rows.map(([name]) => html`<div key=${name}><dt>${words(name)}</dt><dd>${meanings[name] ?? "This signal has no explanation."}</dd></div>`)}</dl></details></div>`;
}
