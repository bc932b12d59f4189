// Journal: what changed here, when, how, and by whom?
import { Button, Empty, Page, Panel, Select, Table, Waiting, ask, count, html, linkTo, moment, plural, setQuery, useAction, useAddress, useLoad, useSession, useState, words } from "../lib.mjs";

const ACTIONS = ["", "write", "merge", "delete", "erase", "maintenance", "projection", "lifecycle", "operator"];
const OPENED = new Set(["turns", "facts"]);

export default function Journal() {
  const { space } = useSession();
  const { query } = useAddress();
  const [pages, setPages] = useState([]);
  const action = query.get("action") ?? "";
  const at = (before) => `/journal?space=${encodeURIComponent(space)}&limit=100${action ? `&actions=${action}` : ""}${before ? `&before=${before}` : ""}`;
  const { data, error, loading, at: when, reload } = useLoad(({ signal }) => { setPages([]); return ask("GET", at(), undefined, { signal }); }, [space, action]);
  const last = pages[pages.length - 1] ?? data;
  const more = useAction(async () => { const page = await ask("GET", at(last.next_before)); setPages([...pages, page]); });
  const items = data ? [data, ...pages].flatMap((page) => page.items) : [];
  return html`
    <${Page} title="Journal" question="What changed here, when, how, and by whom? Entries have no content." loading=${loading} error=${error ?? more.error} at=${data && when}
      actions=${html`<${Select} aria-label="Action" value=${action} options=${ACTIONS.map((name) => [name, name ? words(name) : "All actions"])} onChange=${(value) => setQuery({ action: value })} /><${Button} onClick=${reload}>Refresh<//>`}>
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Panel} flush title=${plural(data.sequence, "entry", "entries")} label="Entries">
          ${items.length === 0 ? html`<${Empty} title="No entries found">${action ? `There are no ${words(action)} entries${last.next_before ? " in the newest part" : ""}.` : "Nothing is stored here yet."}<//>` : html`
            <${Table} wide label="Entries" rows=${items} keyOf=${(entry) => entry.sequence} columns=${[
              ["Entry", (entry) => count(entry.sequence), "num"],
              ["When", (entry) => moment(entry.at), "tight"],
              ["Action", (entry) => words(entry.action)],
              ["Plane", (entry) => words(entry.plane), "tight"],
              ["By", (entry) => (entry.by ? html`<bdi title=${entry.by}>${entry.label || entry.by}</bdi>` : html`<span class="soft">unknown</span>`), "some"],
              ["Document", (entry) => (OPENED.has(entry.collection) && entry.action !== "delete" ? html`<a class="id" href=${linkTo("memories", { id: entry.key })}>${entry.key}</a>` : html`<span class="id">${entry.collection} ${entry.key}</span>`), "grow"],
            ]} />`}
          <p class="inset small">A memory's history shows who corrected, forgot or hid it. Who stored it is known only since this server started.</p>
          ${last.next_before && html`<div class="pager"><span class="soft small">${count(items.length)} shown</span><${Button} busy=${more.busy} onClick=${more.run}>Older<//></div>`}
        <//>`}
    <//>`;
}
