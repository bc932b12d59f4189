// Keys and devices: who can call this server, with what, and when did they last?
import { Badge, Button, Dialog, Empty, Failure, Field, Page, Panel, Select, Table, Waiting, ask, day, html, moment, useAction, useLoad, useSession, useState } from "../lib.mjs";

const KINDS = [["device", "Device: acts for a user in one space"], ["user", "User: all of one space"], ["operator", "Operator: the whole server"]];

export default function Devices() {
  const [shown, setShown] = useState(null);
  const [more, setMore] = useState([]);
  const { data, error, loading, at, reload } = useLoad(({ signal }) => { setMore([]); return ask("GET", "/devices", undefined, { signal }); }, []);
  const items = data ? [...data.items, ...more.flatMap((page) => page.items)] : [];
  const cursor = more.length ? more[more.length - 1].next_cursor : data?.next_cursor;
  const sorted = [...items].sort((one, other) => (one.state === other.state ? (other.last_used_at ?? other.created_at) - (one.last_used_at ?? one.created_at) : one.state === "active" ? -1 : 1));
  const next = useAction(async () => { const page = await ask("GET", `/devices?cursor=${encodeURIComponent(cursor)}`); setMore([...more, page]); });
  const done = (issued) => { setShown(issued ? { form: "once", issued } : null); reload(); };
  return html`
    <${Page} title="Keys and devices" question="Who can call this server, and when did they last do so?" loading=${loading} error=${error} at=${data && at}
      actions=${html`<${Button} kind="primary" onClick=${() => setShown({ form: "add" })}>New key<//>`}>
      ${!data ? loading && html`<${Waiting} />` : html`
        <${Panel} flush label="Keys">
          ${sorted.length ? html`
            <${Table} wide label="Keys" rows=${sorted} keyOf=${(key) => key.id} columns=${[
              ["Label", (key) => html`<bdi>${key.label}</bdi>`, "grow"],
              ["Kind", (key) => key.kind],
              ["Space", (key) => (key.space ? html`<bdi>${key.space}</bdi>` : html`<span class="soft">any</span>`)],
              ["State", (key) => html`<${Badge} tone=${key.state === "active" ? "good" : ""}>${key.state}<//>`],
              ["Fingerprint", (key) => html`<span class="id">${key.appKeyFingerprint}</span>`],
              ["Last used", (key) => (key.last_used_at ? moment(key.last_used_at) : html`<span class="soft">never</span>`), "tight"],
              ["Created", (key) => day(key.created_at), "tight"],
              ["", (key) => key.state === "active" && html`<div class="row tight"><${Button} kind="quiet" aria-label=${`Rename ${key.label}`} onClick=${() => setShown({ form: "label", key })}>Rename<//><${Button} kind="quiet" aria-label=${`Rotate ${key.label}`} onClick=${() => setShown({ form: "rotate", key })}>Rotate<//><${Button} kind="quiet" aria-label=${`Revoke ${key.label}`} onClick=${() => setShown({ form: "revoke", key })}>Revoke<//></div>`],
            ]} />` : html`<${Empty} title="No keys yet">In development mode this server requires no keys. A server that is open to others needs one for each caller.<//>`}
          ${cursor && html`<div class="pager"><span class="soft">${sorted.length} shown</span><${Button} busy=${next.busy} onClick=${next.run}>More<//></div>`}
        <//>`}
      ${shown?.form === "add" && html`<${Add} onClose=${() => setShown(null)} onDone=${done} />`}
      ${shown?.form === "once" && html`<${Once} issued=${shown.issued} onClose=${() => setShown(null)} />`}
      ${shown?.form === "label" && html`<${Rename} of=${shown.key} onClose=${() => setShown(null)} onDone=${() => done()} />`}
      ${shown?.form === "rotate" && html`<${Confirm} title="Rotate the key" act="Rotate" of=${shown.key} onClose=${() => setShown(null)}
        does=${async () => done(await ask("POST", `/devices/${shown.key.id}/rotate-key`))}>The key gets a new secret, shown only once. The old secret stops working.<//>`}
      ${shown?.form === "revoke" && html`<${Confirm} title="Revoke the key" act="Revoke" danger of=${shown.key} onClose=${() => setShown(null)}
        does=${async () => { await ask("DELETE", `/devices/${shown.key.id}`); done(); }}>The key stops working within two seconds in every process of the store. This cannot be undone.<//>`}
    <//>`;
}

function Add({ onClose, onDone }) {
  const { space } = useSession();
  const [draft, setDraft] = useState({ kind: "device", label: "", space: space ?? "" });
  const { busy, error, run } = useAction(async () => {
    const body = { kind: draft.kind, label: draft.label.trim() };
    onDone(await ask("POST", "/devices", draft.kind === "operator" ? body : { ...body, space: draft.space.trim() }));
  });
  return html`
    <${Dialog} title="New key" onClose=${onClose}>
      <form class="form" onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <${Field} label="Kind"><${Select} value=${draft.kind} options=${KINDS} onChange=${(kind) => setDraft({ ...draft, kind })} /><//>
        <${Field} label="Label" hint="Who or what will use it."><input required maxlength="200" value=${draft.label} onInput=${(event) => setDraft({ ...draft, label: event.currentTarget.value })} /><//>
        ${draft.kind !== "operator" && html`<${Field} label="Space" hint="The only space that it can access."><input required value=${draft.space} onInput=${(event) => setDraft({ ...draft, space: event.currentTarget.value })} /><//>`}
        <${Failure} error=${error} />
        <div class="row"><button class="primary" type="submit" disabled=${busy}>Create key</button><button type="button" onClick=${onClose}>Cancel</button></div>
      </form>
    <//>`;
}

function Once({ issued, onClose }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => { try { await navigator.clipboard.writeText(issued.appKeyOnce); setCopied(true); } catch { setCopied(false); } };
  return html`
    <${Dialog} title="New key, shown only once" onClose=${onClose}>
      <p>Copy it now: the server stores only its fingerprint, <span class="id">${issued.device.appKeyFingerprint}</span>.</p>
      <p class="once" tabindex="0">${issued.appKeyOnce}</p>
      <div class="row"><${Button} kind="primary" onClick=${copy}>${copied ? "Copied" : "Copy"}<//><${Button} onClick=${onClose}>Done<//></div>
    <//>`;
}

function Rename({ of, onClose, onDone }) {
  const [label, setLabel] = useState(of.label);
  const { busy, error, run } = useAction(async () => { await ask("PATCH", `/devices/${of.id}`, { label: label.trim() }); onDone(); });
  return html`
    <${Dialog} title="Rename the key" onClose=${onClose}>
      <form class="form" onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <${Field} label="Label"><input required maxlength="200" value=${label} onInput=${(event) => setLabel(event.currentTarget.value)} /><//>
        <${Failure} error=${error} />
        <div class="row"><button class="primary" type="submit" disabled=${busy}>Rename</button><button type="button" onClick=${onClose}>Cancel</button></div>
      </form>
    <//>`;
}

function Confirm({ title, act, of, does, danger, onClose, children }) {
  const { busy, error, run } = useAction(does);
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <p><strong><bdi>${of.label}</bdi></strong> <span class="id">${of.appKeyFingerprint}</span></p>
      <p>${children}</p>
      <${Failure} error=${error} />
      <div class="row"><${Button} kind=${danger ? "danger primary" : "primary"} busy=${busy} onClick=${run}>${act}<//><${Button} onClick=${onClose}>Cancel<//></div>
    <//>`;
}
