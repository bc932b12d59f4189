// What people do to memories: forget and bring back, correct, erase. Each says what it does before it does it.
import { Button, Dialog, Failure, Field, FurtherSpaces, Pairs, Text, Waiting, ask, count, html, plural, useAction, useEffect, useLoad, useOperation, useSession, useState, words } from "../lib.mjs";

const outcomes = (report) => {
  const refused = report.decisions.filter((one) => one.outcome !== "changed");
  return refused.length ? `${plural(refused.length, "memory", "memories")} unchanged: ${[...new Set(refused.map((one) => one.reason || words(one.outcome)))].join("; ")}` : null;
};

export function ForgetDialog({ ids, undo = false, onClose, onDone }) {
  const operation = useOperation();
  const [reason, setReason] = useState("");
  const { busy, error, run } = useAction(async () => {
    const report = await operation("forget", { ids, reason, undo });
    onDone(report);
  });
  return html`
    <${Dialog} title=${undo ? "Restore" : `Forget ${plural(ids.length, "memory", "memories")}`} onClose=${onClose}>
      <form class="form" onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <p>${undo ? "It appears in recall and context blocks again." : "It no longer appears in recall or context blocks. Evidence and history stay, and it can be restored."}</p>
        <${Field} label="Reason" hint="Recorded in the history."><input value=${reason} maxlength="400" onInput=${(event) => setReason(event.currentTarget.value)} /><//>
        <${Failure} error=${error} />
        <div class="row"><button class="primary" type="submit" disabled=${busy}>${undo ? "Restore" : "Forget"}</button><button type="button" onClick=${onClose}>Cancel</button></div>
      </form>
    <//>`;
}

/** Erase what `request` names, after a preview. The number of memories, or the space's name, must be typed; the server refuses if the preview no longer holds. */
export function EraseDialog({ request, title, children, onClose, onDone }) {
  const { space } = useSession();
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const [receipt, setReceipt] = useState(null);
  const send = (more) => ask("POST", "/erasures", { ...request, scope: { space }, ...more });
  const preview = useLoad(() => send({}), [], { keeps: false });
  const { busy, error, run } = useAction(async () => {
    const done = await send({ count: preview.data.count, reason });
    setReceipt(done);
    onDone(done);
  });
  useEffect(() => { if (error?.details?.field === "count") { setTyped(""); preview.reload(); } }, [error]);
  const data = receipt ?? preview.data;
  const rows = data ? Object.entries(data.report.removed).map(([name, number]) => [words(name), count(number)]) : [];
  const memories = data?.report.decisions.filter((one) => one.outcome === "changed").length ?? 0;
  const what = request.whole_space ? html`everything in <bdi>${request.whole_space}</bdi>` : plural(memories, "memory", "memories");
  const phrase = request.whole_space ?? String(memories);
  const details = data && html`<details><summary>${plural(data.count, "stored document")}</summary><${Pairs} rows=${rows} /></details>`;
  if (receipt) {
    return html`
      <${Dialog} title="Erased" onClose=${onClose}>
        <${Pairs} rows=${[["Erased", html`<strong>${what}</strong>`], ["Journal", `entry ${count(receipt.report.sequence)}`]]} />
        <p>It was removed from the store, the index and the journal's digests. This cannot be undone.</p>
        ${details}
        <${FurtherSpaces} names=${receipt.report.other_spaces} />
        ${receipt.report.derived.length > 0 && html`<div class="note warn">${plural(receipt.report.derived.length, "memory", "memories")} derived from what was erased still ${receipt.report.derived.length === 1 ? "exists" : "exist"}: <span class="id">${receipt.report.derived.slice(0, 20).join(", ")}</span></div>`}
        <div class="row"><${Button} kind="primary" onClick=${onClose}>Done<//></div>
      <//>`;
  }
  const matches = data && typed.trim() === phrase && data.count > 0;
  return html`
    <${Dialog} title=${title ?? "Erase"} onClose=${onClose}>
      <p>Erasing deletes the data permanently. This cannot be undone.</p>
      ${children}
      <${Failure} error=${preview.error} />
      ${preview.loading && html`<${Waiting}>Counting…<//>`}
      ${data && data.count === 0 && html`<p class="note">There is nothing to erase${outcomes(data.report) ? `: ${outcomes(data.report)}` : ""}.</p>`}
      ${data && data.count > 0 && html`
        <form class="form" onSubmit=${(event) => { event.preventDefault(); if (matches) run(); }}>
          <${Pairs} rows=${[["Erases", html`<strong>${what}</strong>`]]} />
          ${details}
          <${FurtherSpaces} names=${data.report.other_spaces} />
          ${outcomes(data.report) && html`<p class="small">${outcomes(data.report)}</p>`}
          ${data.report.derived.length > 0 && html`<p class="note warn">${plural(data.report.derived.length, "memory", "memories")} derived from it would remain. Erase these too if they must go.</p>`}
          <${Field} label=${request.whole_space ? "Type the name of the space to confirm" : `Type ${phrase} to confirm`}><input inputmode=${request.whole_space ? "text" : "numeric"} autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.currentTarget.value)} /><//>
          <${Field} label="Reason"><input value=${reason} maxlength="400" onInput=${(event) => setReason(event.currentTarget.value)} /><//>
          <${Failure} error=${error} />
          <div class="row"><button class="danger primary" type="submit" disabled=${busy || !matches}>${busy ? "Erasing…" : "Erase"}</button><button type="button" onClick=${onClose}>Cancel</button></div>
        </form>`}
    <//>`;
}

const ACTIONS = {
  correct: ["Correct", "The fact was wrong. The new text replaces it for all times.", true],
  supersede: ["Supersede", "The world changed. The old text was true until now; the new one is true from now on.", true],
  mark_stale: ["Mark as stale", "It must be verified before use until it is confirmed.", false],
  invalidate: ["End", "It was true until now, and nothing replaces it.", false],
  delete: ["Delete", "It disappears from recall and is not relearned until its topic is allowed. History stays.", false],
};
export const FACT_ACTIONS = Object.entries(ACTIONS).map(([name, [label]]) => [name, label]);

export function FactDialog({ fact, action, onClose, onDone }) {
  const operation = useOperation();
  const [label, told, takesText] = ACTIONS[action];
  const [content, setContent] = useState(fact.content);
  const [reason, setReason] = useState("");
  const { busy, error, run } = useAction(async () => {
    const report = await operation("change_fact", { id: fact.id, action, reason, expected_version: fact.version, ...(takesText ? { content } : {}) });
    if (!report.changed) throw new Error(report.reason || "Nothing was changed");
    onDone(report);
  });
  return html`
    <${Dialog} title=${label} onClose=${onClose}>
      <form class="form" onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <p>${told}</p>
        ${takesText ? html`<${Field} label="Text"><textarea rows="4" required value=${content} onInput=${(event) => setContent(event.currentTarget.value)}></textarea><//>` : html`<${Text} text=${fact.content} />`}
        <${Field} label="Reason" hint="Recorded in the history."><input value=${reason} maxlength="400" onInput=${(event) => setReason(event.currentTarget.value)} /><//>
        <${Failure} error=${error} />
        <div class="row"><button class=${action === "delete" ? "danger primary" : "primary"} type="submit" disabled=${busy || (takesText && content.trim() === fact.content)}>${label}</button><button type="button" onClick=${onClose}>Cancel</button></div>
      </form>
    <//>`;
}
