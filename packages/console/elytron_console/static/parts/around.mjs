// What a memory stands between: what it rests on, its versions, and what rests on it. At most 200 of them, in columns, as links.
import { Text, html, linkTo, useLoad, useOperation, useState } from "../lib.mjs";

const MOST = 60;

export function Around({ id, fact, history }) {
  const [open, setOpen] = useState(false);
  return html`
    <details open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>What is around it</summary>
      ${open && html`<${Columns} id=${id} fact=${fact} history=${history} />`}
    </details>`;
}

function Columns({ id, fact, history }) {
  const operation = useOperation();
  const versions = [...new Set([...history.map((item) => item.id), id])].slice(0, MOST);
  const { data } = useLoad(async ({ signal }) => {
    const read = (one) => operation("get", { id: one, include_private: true }, {}, { signal }).then((hit) => hit, () => ({ id: one, text: "" }));
    const rests = await Promise.all((fact?.evidence ?? []).slice(0, MOST).map(read));
    // A preview of an erasure names what rests on a memory; nothing is erased.
    const derived = await operation("forget", { ids: [id], dry_run: true }, {}, { signal }).then((report) => report.derived ?? [], () => []);
    const after = await Promise.all(derived.slice(0, MOST).map(read));
    const kin = fact ? await Promise.all(versions.filter((one) => one !== id).map((one) => operation("get_fact", { id: one, include_private: true }, {}, { signal }).then((report) => ({ id: one, text: report.fact.content, fact: report.fact }), () => ({ id: one, text: "" })))) : [];
    return { rests, after, kin };
  }, [operation, id]);
  if (!data) return html`<p class="small">Reading…</p>`;
  const own = { id, text: fact?.content ?? "", here: true };
  const line = [...data.kin, ...(fact ? [own] : [])].sort((one, other) => ((one.fact ?? fact)?.recorded_at ?? 0) - ((other.fact ?? fact)?.recorded_at ?? 0));
  return html`
    <div class="around">
      <${Column} title="Rests on" nodes=${data.rests} none="nothing that was cited" />
      ${fact && html`<${Column} title="Versions" nodes=${line} />`}
      <${Column} title="Rests on it" nodes=${data.after} none="nothing" />
    </div>`;
}

const Column = ({ title, nodes, none }) => html`
  <div><h3>${title}</h3>${nodes.length ? html`<ol>${nodes.map((node) => html`
    <li key=${node.id}><a class=${node.here ? "node here" : "node"} aria-current=${node.here ? "true" : undefined} href=${linkTo("memories", { id: node.id })}>${node.text ? html`<${Text} text=${node.text} lines="2" />` : html`<span class="id">${node.id}</span>`}</a></li>`)}</ol>` : html`<p class="small">${none}</p>`}</div>`;
