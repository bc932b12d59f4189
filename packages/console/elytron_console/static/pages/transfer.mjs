// Import and export: can I take the memory with me, and what would a file add?
import { Badge, Button, Failure, Field, FurtherSpaces, Page, Pairs, Panel, Select, ask, bytes, count, html, moment, plural, save, useAction, useSession, useState, words } from "../lib.mjs";

const MODES = [["bootstrap", "Add what is new"], ["full_restore", "Full restore into an empty space"]];
const PARTS = [["true", "The whole space"], ["false", "Only the non-private part"]];
const MOST = { archive: 2 ** 30, transcripts: 2 ** 26 };
const TYPES = { archive: "application/zip", transcripts: "application/octet-stream" };

export default function Transfer() {
  const { space } = useSession();
  return html`
    <${Page} title="Import and export" question="Can I take the memory with me, and what would a file add?">
      <${Export} key=${`out ${space}`} />
      <div class="grid"><${Archive} key=${`in ${space}`} /><${Transcripts} key=${`said ${space}`} /></div>
    <//>`;
}

function Export() {
  const { space } = useSession();
  const [part, setPart] = useState("true");
  const [file, setFile] = useState(null);
  const { busy, error, run } = useAction(async () => {
    setFile(null);
    setFile(await save(`/archive?space=${encodeURIComponent(space)}&include_private=${part}`, "memory.elytron.zip"));
  });
  return html`
    <${Panel} title="Export this space">
      <div class="form">
        <${Field} label="What to export"><${Select} value=${part} options=${PARTS} onChange=${(value) => { setPart(value); setFile(null); }} /><//>
        <p>${part === "true" ? html`One file with all of <strong><bdi>${space}</bdi></strong>: messages, facts, skills, private material and the journal. Use it for a backup or a move.` : html`One file with the public facts, skills and records of <strong><bdi>${space}</bdi></strong>. Messages, private material and the journal are left out, so it is not a backup.`}</p>
        <p class="small">The file holds plain text, even if the store is sealed. Anyone who has the file can read the memory in it.</p>
        <${Failure} error=${error} />
        <div class="row"><${Button} kind="primary" busy=${busy} onClick=${run}>${busy ? "Exporting…" : "Export"}<//>
          ${file && html`<span role="status">Saved ${bytes(file.size)} with ${sums(file.documents) || "no documents"}.${sums(file.left_out) ? html` <strong>Left out: ${sums(file.left_out)}.</strong>` : ""}</span>`}</div>
        <${FurtherSpaces} names=${file?.other_spaces} />
      </div>
    <//>`;
}

function Archive() {
  const { operator } = useSession();
  const [mode, setMode] = useState("bootstrap");
  return html`
    <${Import} title="Import an archive" path="archive" accept=".zip,.elytron" query=${{ mode }} hint="A file that Elytron exported." rows=${archiveRows}
      note=${mode === "bootstrap" ? "New messages, learning rules, and the newest version of each fact and skill are judged like any write. Existing content stays." : "Restores documents and journal exactly. The space must be empty."}>
      ${operator && html`<${Field} label="Mode"><${Select} value=${mode} options=${MODES} onChange=${setMode} /><//>`}
    <//>`;
}

const ORDERS = [["auto", "Detect from the file"], ["dmy", "Day, month, year"], ["mdy", "Month, day, year"], ["ymd", "Year, month, day"]];

function Transcripts() {
  const [order, setOrder] = useState("auto");
  return html`
    <${Import} title="Import messages" path="transcripts" accept=".json,.jsonl,.txt,.md,.zip" named query=${{ date_order: order }} rows=${transcriptRows}
      hint="The export of ChatGPT, Claude, WhatsApp or Telegram (JSON), OpenAI messages, JSON Lines, Markdown or text."
      note="Messages are stored with their own times, as evidence. A newer export of the same conversation adds only what is new, and erased messages stay erased.">
      <${Field} label="Date order"><${Select} value=${order} options=${ORDERS} onChange=${setOrder} /><//>
    <//>`;
}

const sums = (counts) => Object.entries(counts ?? {}).filter(([, number]) => number).map(([name, number]) => `${count(number)} ${words(name)}`).join(", ");

const futureRow = (report) => ["In the future", report.future_claims?.length ? `${plural(report.future_claims.length, "time", "times")}, such as ${moment(report.future_claims[0].claimed)}: stored as claimed, ordered by import time` : ""];

const archiveRows = (report) => [
  ["Archive contents", `${sums(report.contents) || "nothing"}${report.contents?.turns ? "" : "; no messages"}`],
  [report.dry_run ? "Would import" : "Imported", sums(report.imported) || "nothing"], ["Already here, or erased since", sums(report.skipped)],
  ["Replaced facts", sums(report.deleted)], ["Not included", sums(report.left_out)], ["Files", report.blobs ? count(report.blobs) : ""],
  futureRow(report),
];

const transcriptRows = (report) => [
  futureRow(report), ["Format", report.formats.map(words).join(", ")], ["Messages", count(report.messages)], ["Conversations", count(report.conversations)],
  ["From", moment(report.first_at)], ["To", moment(report.last_at)], ["Left out", sums(report.left_out)],
  ...(report.dry_run ? [] : [["Stored", count(report.stored)]]), ["Already known", count(report.duplicates)],
  ["Changed", sums({ "in a new version": report.updated, "left as edited here": report.unchanged })],
  ["Erased before", report.erased ? `${count(report.erased)}, not imported again` : ""], ["Unreadable", report.skipped ? `${count(report.skipped)}, skipped` : ""],
  ...(report.dates ?? []).map((each) => ["Dates", `${each.order}${each.is_ambiguous ? ", although another order is possible" : ""}: ${each.reason}`]),
  ...(report.resumed ?? []).map((each) => ["Continues", `${each.title ?? each.conversation}${each.offset_minutes ? `, times adjusted by ${each.offset_minutes} minutes` : ""}`]),
  ...(report.notes ?? []).map((each) => [words(each.kind), `${each.place}: ${each.problem}`]),
];

/** A file that is read into the space: first its preview, then the import. Another file or mode needs a preview again. */
function Import({ title, path, accept, query = {}, named, hint, note, rows, children }) {
  const { space } = useSession();
  const [file, setFile] = useState(null);
  const [report, setReport] = useState(null);
  const asked = JSON.stringify([file?.name, file?.size, file?.lastModified, query]);
  const send = (dry_run) => {
    if (file.size > MOST[path]) throw new Error(`The file is ${bytes(file.size)}; the limit is ${bytes(MOST[path])}`);
    const said = new URLSearchParams({ space, dry_run, ...query, ...(named ? { name: file.name } : {}) });
    return ask("PUT", `/${path}?${said}`, file, { type: TYPES[path] });
  };
  const { busy, error, run, clear } = useAction(async (dry_run) => { setReport(null); setReport({ asked, ...(await send(dry_run)) }); });
  const shown = report?.asked === asked ? report : null;
  return html`
    <${Panel} title=${title}>
      <form class="form" onSubmit=${(event) => { event.preventDefault(); run(true); }}>
        <${Field} label="File" hint=${hint}><input type="file" accept=${accept} onChange=${(event) => { setFile(event.currentTarget.files[0] ?? null); setReport(null); clear(); }} /><//>
        ${children}
        <p class="small">${note}</p>
        <${Failure} error=${error?.code === "unreadable_file" ? { ...error, message: `the file ${error.details.problem}` } : error} />
        ${shown && html`
          <div role="status" class="form">
            ${shown.dry_run ? html`<p><strong>This is a preview.</strong> Nothing has been stored yet.</p>` : html`<p><${Badge} tone=${shown.changed ? "good" : ""}>${shown.changed ? "imported" : "nothing new"}<//></p>`}
            <${Pairs} rows=${rows(shown)} />
          </div>`}
        <div class="row"><button type="submit" class=${shown?.dry_run ? "" : "primary"} disabled=${busy || !file}>${busy ? "Reading…" : "Preview import"}</button>
          ${shown?.dry_run && html`<${Button} kind="primary" busy=${busy} onClick=${() => run(false)}>Import<//>`}</div>
      </form>
    <//>`;
}
