// What a memory is related to: its sources, its versions, and what is derived from it. The server gives at most 200, in columns, as links.
import { Failure, Text, ask, html, linkTo, useLoad, useSession, useState } from "../lib.mjs";

export function Around({ id }) {
  const [open, setOpen] = useState(false);
  return html`
    <details open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>Related memories</summary>
      ${open && html`<${Columns} id=${id} />`}
    </details>`;
}

function Columns({ id }) {
  const { space } = useSession();
  const { data, error } = useLoad(({ signal }) => ask("GET", `/around?${new URLSearchParams({ space, id })}`, undefined, { signal }), [space, id]);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="small">Loading…</p>`;
  return html`
    <div class="around">
      <${Column} title="Sources" id=${id} nodes=${data.rests} none="none cited" />
      ${data.versions.length > 0 && html`<${Column} title="Versions" id=${id} nodes=${data.versions} />`}
      <${Column} title="Derived from it" id=${id} nodes=${data.derived} none="none" />
    </div>
    ${data.clipped && html`<p class="small">Only the first 200 are shown.</p>`}`;
}

const Column = ({ title, id, nodes, none }) => html`
  <div><h3>${title}</h3>${nodes.length ? html`<ol>${nodes.map((node) => html`
    <li key=${node.id}><a class=${node.id === id ? "node here" : "node"} aria-current=${node.id === id ? "true" : undefined} href=${linkTo("memories", { id: node.id })}>${node.text ? html`<${Text} text=${node.text} lines="2" />` : html`<span class="id">${node.id}</span>`}</a></li>`)}</ol>` : html`<p class="small">${none}</p>`}</div>`;
