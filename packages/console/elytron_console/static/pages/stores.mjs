// Stores: where is the data, how much room is left, and is it intact?
import { Badge, Button, Failure, Figure, LONG_MS, Losses, Meter, Page, Pairs, Panel, Table, Waiting, ask, bytes, count, html, linkTo, moment, plural, useAction, useLoad, useOperation, useSession, useState, words } from "../lib.mjs";

const ERASURES = { no_byte: "no byte remains in the files", of_tables: "no byte remains in the tables; each erasure reports what logs and replicas may still hold", of_server: "depends on the server that stores the bytes" };

export default function Stores() {
  const { space } = useSession();
  const { data, error, loading, at, reload } = useLoad(({ signal }) => ask("GET", `/overview${space ? `?space=${encodeURIComponent(space)}` : ""}`, undefined, { signal }), [space]);
  return html`
    <${Page} title="Stores" question="Where is the data, how much room is left, and is it intact?" loading=${loading} error=${error} at=${data && at}
      actions=${html`<${Button} onClick=${reload}>Refresh<//>`}>
      ${!data ? loading && html`<${Waiting} />` : html`<${Store} ...${data} />${space && html`<${Check} key=${space} space=${space} />`}`}
    <//>`;
}

function Store({ runtime, storage, promises, spaces, spaces_clipped, kernel }) {
  const used = storage.device_bytes ? storage.device_bytes - storage.free_bytes : null;
  return html`
    <div class="figures" role="group" aria-label="Figures">
      <${Figure} label="Store" value=${bytes(storage.store_bytes)} note=${storage.store_bytes === undefined ? "no files on this machine" : "files on this machine"} />
      <${Figure} label="Spaces" value=${`${count(spaces)}${spaces_clipped ? "+" : ""}`} note=${html`<a href=${linkTo("spaces")}>all spaces</a>`} />
      <${Figure} label="Indexes in memory" value=${bytes(kernel.index_bytes)} note=${plural(kernel.indexes, "index", "indexes")} />
      <${Figure} label="Last backup" value=${storage.backed_up_at ? moment(storage.backed_up_at) : "unknown"} tone="small" note="elytron backup FILE" />
    </div>
    <div class="grid">
      <${Panel} title="The store" aside=${html`<${Badge} tone=${runtime.ready ? "good" : "bad"}>${runtime.ready ? "available" : "closing"}<//>`}>
        <${Pairs} rows=${[
          ["Address", runtime.store ? html`<span class="mono">${runtime.store}</span>` : "not shown"], ["Engine", runtime.engine], ["Profile", words(runtime.profile)],
          ["Device", used === null ? "unknown" : `${bytes(storage.free_bytes)} free of ${bytes(storage.device_bytes)}`],
        ]} />
        ${used !== null && html`<${Meter} label="Device in use" part=${used} whole=${storage.device_bytes} note=${`${Math.round((used / storage.device_bytes) * 100)} %`} />`}
      <//>
      <${Panel} title="Guarantees">
        <${Pairs} rows=${[
          ["Durable", promises.durable ? "yes: accepted writes survive the process" : html`<${Badge} tone="warn">no: data ends with the process<//>`],
          ["Sealed", promises.sealed ? "yes: texts are encrypted before they reach the engine" : "no: texts are readable in its files"],
          ["Erasure", ERASURES[promises.erasure] ?? words(promises.erasure)],
          ["Writers", promises.nodes ? "several machines" : promises.single_writer ? "only this process" : "several processes on this machine"],
          ["Time limits", promises.ttl ? "expired items are permanently removed" : "not supported"],
        ]} />
      <//>
    </div>`;
}

function Check({ space }) {
  const operation = useOperation();
  const [told, setTold] = useState(null);
  const { busy, error, run } = useAction(async () => { const report = await operation("inspect", { check: true }, {}, { deadline: LONG_MS }); setTold({ report, at: Date.now() }); });
  const acknowledging = useAction(async () => { const report = await operation("inspect", { acknowledge: true }); setTold({ report: { ...told.report, losses: [], store_check: { ...told.report.store_check, losses: Math.max(0, told.report.store_check.losses - report.acknowledged) } }, at: Date.now() }); });
  const check = told?.report.store_check;
  const account = told?.report.journal_account;
  const isWhole = check?.ok && !account?.altered && !account?.missing && !account?.unproven;
  return html`
    <${Panel} title="Integrity check" aside=${told && html`checked at ${moment(told.at)}`}>
      <div class="form">
        <p class="soft">Reads every byte of the store and compares the contents of the space <bdi>${space}</bdi> with its journal. Nothing is changed. A large store takes a while.</p>
        <div class="row"><${Button} busy=${busy} onClick=${run}>${busy ? "Checking…" : "Check now"}<//>${told && html`<${Badge} tone=${isWhole ? "good" : "bad"}>${isWhole ? "intact" : check?.losses && !check.problems.length ? "losses not acknowledged" : "damaged"}<//>`}</div>
        <${Failure} error=${error ?? acknowledging.error} />
        ${told?.report.losses?.length > 0 && html`<${Losses} losses=${told.report.losses} /><div class="row"><${Button} busy=${acknowledging.busy} onClick=${acknowledging.run}>Acknowledge the losses<//></div>`}
        ${told && html`
          <${Pairs} rows=${[
            ["Checked", `${plural(check?.documents ?? 0, "document")}, ${plural(check?.entries ?? 0, "journal entry", "journal entries")}, ${plural(check?.blobs ?? 0, "file")}`],
            ["Journal", account && `${plural(account.told, "document matches", "documents match")}; ${count(account.altered)} differ, ${count(account.missing)} are missing`],
            ["Head", told.report.head && html`<span class="id">${told.report.head}</span>`],
          ]} />
          ${check?.problems.length > 0 && html`<${Table} label="Damage" rows=${check.problems.map((problem, place) => ({ place, problem }))} keyOf=${(row) => row.place} columns=${[
            ["Damage", (row) => html`<span class="id">${JSON.stringify(row.problem)}</span>`, "grow"],
          ]} />`}`}
      </div>
    <//>`;
}
