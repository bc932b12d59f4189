// Erasures: what was erased when, and is it gone?
import { Badge, Button, Empty, Failure, Field, Page, Pairs, Panel, Text, Waiting, ask, count, html, linkTo, moment, plural, useAction, useLoad, useOperation, useSession, useState, words } from "../lib.mjs";
import { EraseDialog } from "../parts/control.mjs";

const READ = 5_000;

/** The receipts in a page of the journal: each erasure with the documents that it took just before, each once. */
function receiptsOf(entries) {
  const receipts = [];
  let open = null;
  for (const entry of entries) {
    if (entry.action === "erase") {
      open = { ...entry, documents: [] };
      receipts.push(open);
    } else if (!open || entry.action !== "delete" || entry.digest) open = null;
    // A turn is emptied, and then removed.
    else if (!open.documents.some(({ collection, key }) => collection === entry.collection && key === entry.key)) open.documents.push(entry);
  }
  return receipts;
}

export default function Erasures() {
  const { space } = useSession();
  const [pages, setPages] = useState([]);
  const [form, setForm] = useState(false);
  const at = (before) => `/journal?space=${encodeURIComponent(space)}&actions=erase,delete&limit=200${before ? `&before=${before}` : ""}`;
  const { data, error, loading, at: when, reload } = useLoad(({ signal }) => { setPages([]); return ask("GET", at(), undefined, { signal }); }, [space]);
  const last = pages[pages.length - 1] ?? data;
  const more = useAction(async () => { const page = await ask("GET", at(last.next_before)); setPages([...pages, page]); });
  const receipts = data ? receiptsOf([data, ...pages].flatMap((page) => page.items)) : [];
  return html`
    <${Page} title="Erasures" question="What was erased, when, and is it gone?" loading=${loading} error=${error} at=${data && when}
      actions=${html`<${Button} kind="danger" onClick=${() => setForm(true)}>Erase the whole space…<//>`}>
      <${Canary} />
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Panel} title="Receipts" flush aside=${`the journal has ${plural(data.sequence, "entry", "entries")}`}>
          ${receipts.length === 0 ? html`<${Empty} title="Nothing has been erased here">The journal has no erasures${last.next_before ? " in its newest part" : ""}.<//>` : html`
            <ul class="list">${receipts.map((receipt) => html`<${Receipt} key=${receipt.sequence} receipt=${receipt} />`)}</ul>`}
          ${last.next_before && html`<div class="pager"><span class="soft small">Older entries are not loaded.</span><${Button} busy=${more.busy} onClick=${more.run}>Older<//></div>`}
        <//>`}
      ${form && html`<${EraseDialog} request=${{ whole_space: space }} title="Erase the whole space" onClose=${() => setForm(false)} onDone=${reload}><p>This erases everything in <strong><bdi>${space}</bdi></strong>: messages, facts, skills, their history and, in a sealed store, the space's keys.</p><//>`}
    <//>`;
}

function Receipt({ receipt }) {
  const operation = useOperation();
  const [told, setTold] = useState(null);
  const planes = Object.entries(receipt.documents.reduce((sums, entry) => ({ ...sums, [entry.plane]: (sums[entry.plane] ?? 0) + 1 }), {}));
  const ids = receipt.documents.filter((entry) => ["turns", "facts"].includes(entry.collection)).map((entry) => entry.key);
  const { busy, error, run } = useAction(async () => {
    const asked = ids.slice(0, 50);
    const answers = await Promise.all(asked.map((id) => operation("get", { id, include_private: true }).then(() => id, (refusal) => { if (refusal.status === 404) return null; throw refusal; })));
    setTold({ asked: asked.length, there: answers.filter(Boolean) });
  });
  return html`
    <li>
      <div class="row between"><strong>${moment(receipt.at)}</strong><span class="soft small">entry ${count(receipt.sequence)}</span></div>
      <div class="meta">${planes.length ? planes.map(([plane, number]) => html`<span key=${plane}>${words(plane)}: ${count(number)}</span>`) : html`<span>the entries of its documents are not loaded, or were compacted</span>`}</div>
      ${ids.length > 0 && html`<div class="row"><${Button} busy=${busy} onClick=${run}>Verify the erasure<//>
        ${told && (told.there.length ? html`<${Badge} tone="bad">${plural(told.there.length, "memory", "memories")} can be read again<//>` : html`<${Badge} tone="good">none of ${plural(told.asked, "memory", "memories")} can be read<//>`)}</div>`}
      ${told?.there.map((id) => html`<a key=${id} class="id" href=${linkTo("memories", { id })}>${id}</a>`)}
      <${Failure} error=${error} />
    </li>`;
}

function Canary() {
  const operation = useOperation();
  const [text, setText] = useState("");
  const [told, setTold] = useState(null);
  const { busy, error, run } = useAction(async () => {
    const phrase = text.trim().toLowerCase();
    const found = new Map();
    let read = 0;
    let cursor;
    do {
      const page = await operation("list", { limit: 500, hidden: "listed", include_private: true, ...(cursor ? { cursor } : {}) });
      read += page.items.length;
      for (const hit of page.items) if (`${hit.text} ${hit.title ?? ""} ${hit.speaker ?? ""}`.toLowerCase().includes(phrase)) found.set(hit.id, hit.text);
      cursor = page.next_cursor;
    } while (cursor && read < READ);
    const facts = await operation("list_facts", { query: phrase, states: [], include_private: true, limit: 100 });
    for (const fact of facts.items) if (`${fact.content} ${fact.topic}`.toLowerCase().includes(phrase)) found.set(fact.id, fact.content);
    const recalled = await operation("recall", { query: phrase, limit: 50, include_private: true });
    for (const hit of recalled.hits) if (hit.text.toLowerCase().includes(phrase)) found.set(hit.id, hit.text);
    setTold({ read, whole: !cursor, found: [...found], phrase: text.trim() });
  });
  return html`
    <${Panel} title="Canary check">
      <form class="form" onSubmit=${(event) => { event.preventDefault(); if (text.trim()) run(); }}>
        <p class="soft">Enter text that must be gone. The check reads every memory of the space, including hidden and private ones and every version of every fact, and searches with recall.</p>
        <div class="toolbar"><div class="grow"><input aria-label="Text that must be gone" autocomplete="off" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /><button type="submit" disabled=${busy || !text.trim()}>${busy ? "Checking…" : "Check"}</button></div></div>
        <${Failure} error=${error} />
        ${told && html`<div class=${told.found.length ? "note bad" : "note good"} role="status">${told.found.length ? html`“<bdi>${told.phrase}</bdi>” is still in ${plural(told.found.length, "memory", "memories")}.` : html`“<bdi>${told.phrase}</bdi>” is in none of ${plural(told.read, "memory", "memories")}${told.whole ? "" : ` (the first ${count(READ)}; there are more)`}, in no version of a fact, and not found by recall.`}</div>
          ${told.found.slice(0, 20).map(([id, content]) => html`<div key=${id}><a class="id" href=${linkTo("memories", { id })}>${id}</a><${Text} text=${content} lines="2" /></div>`)}`}
      </form>
    <//>`;
}
