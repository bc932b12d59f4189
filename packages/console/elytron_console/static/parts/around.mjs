// What a memory stands between: what it rests on, its versions, and what rests on it. The server gives at most 200, in columns, as links.
import { Failure, Text, ask, html, linkTo, useLoad, useSession, useState } from "../lib.mjs";

export function Around({ id }) {
  const [open, setOpen] = useState(false);
  return html`
    <details open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>What is around it</summary>
      ${open && html`<${Columns} id=${id} />`}
    </details>`;
}

function Columns({ id }) {
  const { space } = useSession();
  const { data, error } = useLoad(({ signal }) => ask("GET", `/around?${new URLSearchParams({ space, id })}`, undefined, { signal }), [space, id]);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="small">Reading…</p>`;
  return html`
    <div class="around">
      <${Column} title="Rests on" id=${id} nodes=${data.rests} none="nothing that was cited" />
      ${data.versions.length > 0 && html`<${Column} title="Versions" id=${id} nodes=${data.versions} />`}
      <${Column} title="Rests on it" id=${id} nodes=${data.derived} none="nothing" />
    </div>
    ${data.clipped && html`<p class="small">There are more; the first 200 are shown.</p>`}`;
}

const Column = ({ title, id, nodes, none }) => html`
  <div><h3>${title}</h3>${nodes.length ? html`<ol>${nodes.map((node) => html`
    <li key=${node.id}><a class=${node.id === id ? "node here" : "node"} aria-current=${node.id === id ? "true" : undefined} href=${linkTo("memories", { id: node.id })}>${node.text ? html`<${Text} text=${node.text} lines="2" />` : html`<span class="id">${node.id}</span>`}</a></li>`)}</ol>` : html`<p class="small">${none}</p>`}</div>`;
