// API: which paths does this server have, and what does each do?
import { Badge, Empty, Page, Panel, Table, Waiting, ask, html, plural, setQuery, useAddress, useEffect, useLoad, useState, words } from "../lib.mjs";

const TONES = { GET: "good", DELETE: "bad" };

export default function Docs() {
  const { query } = useAddress();
  const [text, setText] = useState(query.get("q") ?? "");
  useEffect(() => { setText(query.get("q") ?? ""); }, [query.get("q")]);
  const { data, error, loading, at } = useLoad(({ signal }) => ask("GET", "/paths", undefined, { signal }), []);
  const wanted = text.trim().toLowerCase();
  const found = data?.items.filter((row) => `${row.method} ${row.path} ${row.summary} ${row.group}`.toLowerCase().includes(wanted)) ?? [];
  const groups = Map.groupBy ? [...Map.groupBy(found, (row) => row.group)] : [...found.reduce((all, row) => all.set(row.group, [...(all.get(row.group) ?? []), row]), new Map())];
  return html`
    <${Page} title="API" question="Which paths does this server have, and what does each do?" loading=${loading} error=${error} at=${data && at}
      actions=${html`<a href="/docs">Try it</a><a href="/openapi.json">openapi.json</a>`}>
      <form class="toolbar" role="search" onSubmit=${(event) => { event.preventDefault(); setQuery({ q: text.trim() }); }}>
        <div class="grow"><input type="search" aria-label="Find a path" placeholder="recall" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /></div>
        ${data && html`<span class="soft small" role="status">${plural(found.length, "path")} of ${data.items.length} available to your key</span>`}
      </form>
      ${!data ? loading && html`<${Waiting} />` : found.length === 0 ? html`<${Panel} label="Paths"><${Empty} title="No paths found">Searched for “<bdi>${text}</bdi>” in methods, paths and descriptions.<//><//>` : groups.map(([group, rows]) => html`
        <${Panel} key=${group} title=${words(group)} flush aside=${plural(rows.length, "path")}>
          <${Table} label=${words(group)} rows=${rows} keyOf=${(row) => `${row.method} ${row.path}`} columns=${[
            ["Method", (row) => html`<${Badge} tone=${TONES[row.method] ?? "accent"}>${row.method}<//>`, "method"],
            ["Path", (row) => html`<span class="id">${row.path}</span>`, "path"],
            ["Description", (row) => html`${row.summary} ${row.operator && html`<${Badge}>operator<//>`}`, "grow told"],
          ]} />
        <//>`)}
    <//>`;
}
