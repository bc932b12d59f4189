// Spaces: whose memories are in this store, and how much of each?
import { Badge, Button, Empty, Page, Panel, Table, Waiting, ask, count, day, html, useAction, useLoad, useSession, useState } from "../lib.mjs";

export default function Spaces() {
  const { choose, space, default_space: usual } = useSession();
  const [pages, setPages] = useState([]);
  // The request names a space as every one does; the list is of the whole store.
  const read = (cursor, options) => ask("POST", "/operations/list_spaces", { limit: 50, ...(cursor ? { cursor } : {}), scope: { space: space ?? usual ?? "default" } }, options);
  const { data, error, loading, at } = useLoad(({ signal }) => { setPages([]); return read(undefined, { signal }); }, []);
  const last = pages[pages.length - 1] ?? data;
  const more = useAction(async () => { const page = await read(last.next_cursor); setPages([...pages, page]); });
  const items = data ? [data, ...pages].flatMap((page) => page.spaces) : [];
  return html`
    <${Page} title="Spaces" question="Whose memories are in this store, and how many?" loading=${loading} error=${error ?? more.error} at=${data && at}>
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Panel} flush label="Spaces">
          ${items.length === 0 ? html`<${Empty} title="No spaces yet">The first write creates one.<//>` : html`
            <${Table} label="Spaces" rows=${items} keyOf=${(one) => one.space} current=${space} columns=${[
              ["Space", (one) => html`<bdi>${one.space}</bdi> ${!one.readable && html`<${Badge} tone="bad">unreadable<//>`}`, "grow"],
              ["Conversations", (one) => count(one.conversations), "num"],
              ["Turns", (one) => count(one.turns), "num"],
              ["First", (one) => day(one.first_at), "tight"],
              ["Latest", (one) => day(one.last_at), "tight"],
              ["", (one) => (one.space === space ? html`<span class="soft">shown</span>` : html`<${Button} kind="quiet" aria-label=${`Show ${one.space}`} onClick=${() => choose(one.space)}>Show<//>`)],
            ]} />`}
          ${last.has_more && html`<div class="pager"><span class="soft small">${count(items.length)} shown</span><${Button} busy=${more.busy} onClick=${more.run}>More<//></div>`}
        <//>`}
    <//>`;
}
