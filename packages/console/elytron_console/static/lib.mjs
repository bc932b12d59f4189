// What pages share: calls, the address, times and texts as people read them, and the few parts that pages are made of.
import { h, render, Fragment, createContext } from "./vendor/preact.mjs";
import { useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";

export { Fragment, createContext, render, useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState };
export const html = htm.bind(h);

// Calls ---------------------------------------------------------------------------------------------------------------

const TOKEN = "X-Console-Token";
// A cookie goes to every port of its host; the token stays with this origin, and the two open the console together.
const KEPT = "elytron-console-token";
let token = "";
try { token = localStorage.getItem(KEPT) ?? ""; } catch { /* a browser that stores nothing: signed in until it is loaded again */ }
let onSignedOut = () => {};

export const keepToken = (given) => {
  token = given ?? "";
  try { if (token) localStorage.setItem(KEPT, token); else localStorage.removeItem(KEPT); } catch { /* the same */ }
};
export const whenSignedOut = (act) => { onSignedOut = act; };

// What was answered last: a page that is opened again while nothing answers shows it, and says since when.
const KNOWN = new Map();
const KNOWN_MOST = 60;
const know = (key, data, at) => {
  KNOWN.delete(key);
  KNOWN.set(key, { data, at });
  if (KNOWN.size > KNOWN_MOST) KNOWN.delete(KNOWN.keys().next().value);
};
/** Let go of what was answered: at a sign-out, and where it may hold what was hidden or erased. */
export const forgetKnown = () => KNOWN.clear();
const CLEARED = /^\/(erasures|operations\/(erase|forget|forget_facts|change_fact|correct))$/;
const AGAIN = "elytron-again";
export const askAgain = () => dispatchEvent(new Event(AGAIN));
const isDown = (error) => error.code === "unreachable" || error.status >= 500;

export class Refusal extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title ?? "The server refused the request");
    Object.assign(this, { status: problem.status ?? 0, code: problem.code ?? "", details: problem.details ?? {} });
  }
}

/** Call the console's own routes. Raises Refusal for what the server refuses, and where it does not answer in time. */
export async function ask(method, path, body, options = {}) {
  const answer = await request(method, path, body, options);
  if (CLEARED.test(path)) forgetKnown();
  const text = await answer.body.text();
  try { return text ? JSON.parse(text) : {}; } catch { return { detail: "The response could not be read." }; }
}

const CONTENTS = "X-Archive-Contents";

/** Fetch an archive and have the browser save it. Returns its size, and the documents in it and left out by collection. */
export async function save(path, name) {
  const { body: file, headers } = await request("GET", path, undefined, { deadline: LONG_MS });
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return { size: file.size, ...JSON.parse(headers.get(CONTENTS) ?? "{}") };
}

/** Send a request; a body that is a file goes as it is, of the media type `type`. A token of before a restart is renewed once. */
async function request(method, path, body, options = {}) {
  const used = token;
  let answer = await send(method, path, body, options);
  if (answer.status === 403 && options.key === undefined) {
    if (token === used) await (renewal ??= renewToken().finally(() => { renewal = null; }));
    if (token !== used) answer = await send(method, path, body, options);
  }
  if (answer.ok) return answer;
  if (answer.status === 401 && options.key === undefined) onSignedOut();
  let problem = {};
  try { problem = JSON.parse(await answer.body.text()); } catch { problem = { detail: "The response could not be read." }; }
  throw new Refusal({ status: answer.status, ...problem });
}

// Requests that are refused at once wait for the same one.
let renewal = null;

/** Ask for the session's token again: it is another one if the server was started again since. */
async function renewToken() {
  const answer = await send("GET", "/session", undefined, {});
  if (answer.ok) keepToken(JSON.parse(await answer.body.text()).token);
}

const DEADLINE_MS = 30_000;
/** The deadline of files, and of work that reads a whole store. */
export const LONG_MS = 30 * 60_000;

/** Send one request. Returns its status and whole body, both within `deadline` milliseconds. */
async function send(method, path, body, { key, signal, type = "application/json", deadline = body instanceof Blob ? LONG_MS : DEADLINE_MS }) {
  const headers = {};
  // A browser sends no other characters in a header; no key has them.
  if (key !== undefined && !/^[\x21-\x7E]+$/.test(key)) throw new Refusal({ status: 401, detail: "This is not an access key." });
  if (key !== undefined) headers.Authorization = `Bearer ${key}`;
  if (token) headers[TOKEN] = token;
  if (body !== undefined) headers["Content-Type"] = type;
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), deadline);
  try {
    const answer = await fetch(`/console${path}`, {
      method, headers, credentials: "same-origin", cache: "no-store",
      signal: signal ? AbortSignal.any([limit.signal, signal]) : limit.signal,
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
    });
    return { ok: answer.ok, status: answer.status, headers: answer.headers, body: await answer.blob() };
  } catch (error) {
    if (signal?.aborted) throw error;
    if (!limit.signal.aborted) throw new Refusal({ detail: "The server is not responding.", code: "unreachable" });
    // What a page reads has a signal; anything else may be a change, whose outcome is open.
    const open = signal ? "" : " A submitted change may still have taken effect.";
    throw new Refusal({ detail: `The server did not respond within ${span(deadline)}.${open}`, code: "unreachable" });
  } finally {
    clearTimeout(timer);
  }
}

export const Session = createContext(null);
export const useSession = () => useContext(Session);

/** Links to other spaces of the store, for a page whose own space is empty. */
export function OtherSpaces() {
  const { operator, spaces, space } = useSession();
  const others = operator ? spaces.filter((name) => name !== space) : [];
  if (!others.length) return null;
  return html` This store also has memories in ${others.slice(0, 8).map((name, place) => html`${place ? ", " : ""}<a key=${name} href=${linkTo("overview", { space: name })}><bdi>${name}</bdi></a>`)}${others.length > 8 ? html` and <a href=${linkTo("spaces")}>other spaces</a>` : ""}.`;
}

/** Say which other spaces of the same user an export or erasure of one space leaves out. */
export const FurtherSpaces = ({ names }) =>
  names?.length ? html`<p class="note warn">This user's other spaces are not included: <bdi>${names.join(", ")}</bdi>.</p>` : null;

/** Return a function that performs an operation in the space that the page shows. */
export function useOperation() {
  const { space } = useSession();
  return useCallback(
    (name, request = {}, scope = {}, options) =>
      ask("POST", `/operations/${name}`, { ...request, scope: { space, ...scope } }, options),
    [space],
  );
}

/** The filters of both clocks, as an operation takes them; none of them where a list is about now. */
export function useClocks() {
  const { clocks } = useSession();
  return useMemo(() => ({
    ...(clocks.asOf === null ? {} : { as_of: clocks.asOf }), ...(clocks.knownAt === null ? {} : { known_at: clocks.knownAt }),
  }), [clocks]);
}

/** What `load` gives, asked again when `deps` change. If nothing answers, what was known stays, with the time it is from. */
export function useLoad(load, deps, { keeps = true } = {}) {
  const { space } = useSession();
  const [state, setState] = useState({ key: null, data: null, error: null, loading: true, at: null });
  const [round, setRound] = useState(0);
  // The text of a function names its place in a page; its values are in `deps`.
  const key = JSON.stringify([space, String(load), deps]);
  useEffect(() => {
    const again = () => setRound((before) => before + 1);
    addEventListener(AGAIN, again);
    return () => removeEventListener(AGAIN, again);
  }, []);
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    Promise.resolve(load({ signal: stop.signal })).then(
      (data) => {
        if (stop.signal.aborted) return;
        const at = Date.now();
        if (keeps) know(key, data, at);
        setState({ key, data, error: null, loading: false, at });
      },
      (error) => stop.signal.aborted || setState((before) => {
        const known = keeps && isDown(error) ? KNOWN.get(key) : null;
        const kept = known ?? (before.key === key ? before : { data: null, at: null });
        return { key, data: kept.data, at: kept.at, error, loading: false };
      }),
    );
    return () => stop.abort();
  }, [...deps, round]);
  return { ...state, reload: useCallback(() => setRound((before) => before + 1), []) };
}

/** The place beside a list to which the focus goes when a row opens it, and from which it goes back to the row. */
export function useArrival() {
  const ref = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    if (!before?.closest("main .list, main .table")) return undefined;
    ref.current?.focus({ preventScroll: true });
    return () => { if (before.isConnected) before.focus({ preventScroll: true }); };
  }, []);
  return ref;
}

/** What a form does when it is sent: whether it is under way, and what was refused. */
export function useAction(act) {
  const [state, setState] = useState({ busy: false, error: null });
  const run = async (...given) => {
    setState({ busy: true, error: null });
    try {
      const done = await act(...given);
      setState({ busy: false, error: null });
      return done;
    } catch (error) {
      setState({ busy: false, error });
      return undefined;
    }
  };
  return { ...state, run, clear: () => setState({ busy: false, error: null }) };
}

// The address ---------------------------------------------------------------------------------------------------------

const parse = () => {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: path || "overview", query: new URLSearchParams(query ?? "") };
};

// Each address names its space, so that it shows the same to whoever opens it.
let shownSpace = null;
export const setShownSpace = (space) => { shownSpace = space; };

/** The address of a page of the space that is shown, or of the one that `query` names. */
export const linkTo = (page, query = {}) => {
  const kept = Object.entries({ space: shownSpace, ...query }).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `#/${page}${kept.length ? `?${new URLSearchParams(kept)}` : ""}`;
};

export function useAddress() {
  const [address, setAddress] = useState(parse);
  useEffect(() => {
    const changed = () => setAddress(parse());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return address;
}

/** Change parts of the query of this page; the entry in the history is replaced where `quiet`. */
export function setQuery(changes, { quiet = false } = {}) {
  const { page, query } = parse();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const next = `#/${page}${query.size ? `?${query}` : ""}`;
  if (!quiet) location.hash = next;
  else {
    history.replaceState(null, "", next);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}

// Times and texts -----------------------------------------------------------------------------------------------------

const DAY = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const MOMENT = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
});
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const COUNT = new Intl.NumberFormat();

export const day = (at) => (at === null || at === undefined ? "" : DAY.format(at));
export const moment = (at) => (at === null || at === undefined ? "" : MOMENT.format(at));
export const clock = (at) => CLOCK.format(at);
export const count = (number) => (number === null || number === undefined ? "–" : COUNT.format(number));
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
export const words = (name) => String(name ?? "").replaceAll("_", " ");

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = number;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export const millis = (ms) => `${ms < 10 ? ms.toFixed(1) : count(Math.round(ms))} ms`;

export function span(ms) {
  const seconds = Math.floor(ms / 1000);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return `${Math.round(ms)} ms`;
  const [size, unit] = parts[first];
  const rest = parts[first + 1] ? Math.floor((seconds % size) / parts[first + 1][0]) : 0;
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${parts[first + 1][1]}` : ""}`;
}

/** Milliseconds of what a field of a form says, in this machine's zone; null if it says nothing. */
export const fieldTime = (text) => {
  const at = text ? new Date(text).getTime() : NaN;
  return Number.isNaN(at) ? null : at;
};
/** Milliseconds in the address; null if it names none that a calendar has. */
export const addressTime = (text) => {
  const at = Number(text);
  return text && Number.isInteger(at) && Math.abs(at) <= 8.64e15 ? at : null;
};
/** What a field of a form shows for milliseconds. */
export const timeField = (at) => {
  if (at === null || at === undefined) return "";
  const local = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
};

const MARKS = /[\u202A-\u202E\u2066-\u2069\u200E\u200F\u061C\u200B\u2060\uFEFF]/g;
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000B-\u001F\u007F]/g;
/** A stored text as it is shown: what steers the eye or a terminal is named in its place. */
export const visible = (text) =>
  String(text ?? "")
    .replace(CONTROLS, (mark) => (mark === "\u007F" ? "\u2421" : String.fromCharCode(0x2400 + mark.charCodeAt(0))))
    .replace(MARKS, (mark) => `\u27E8U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27E9`);

// Parts ---------------------------------------------------------------------------------------------------------------

export const cx = (...names) => names.filter(Boolean).join(" ");

export function Page({ title, question, actions, children, loading, error, at }) {
  useEffect(() => { document.title = `${title} · Elytron`; }, [title]);
  return html`
    <div class="page" aria-busy=${loading ? "true" : "false"}>
      <header class="page-head">
        <div>
          <h1 tabindex="-1">${title}</h1>
          ${question && html`<p class="question">${question}</p>`}
        </div>
        ${actions && html`<div class="actions">${actions}</div>`}
      </header>
      <${Failure} error=${error} at=${at} />
      ${children}
    </div>`;
}

/** Names what repairs could not save of a space, until an operator acknowledges it. */
export function Losses({ losses = [] }) {
  return losses.map((loss) => html`
    <div class="note bad" role="alert">
      <span><strong>Memories were lost to damage.</strong> ${plural(loss.documents, "document")}, ${plural(loss.entries, "journal entry", "journal entries")} and ${plural(loss.blobs, "file")} ${loss.space ? "of this space" : "of a space that is not known"}, ${moment(loss.at)}: ${loss.what}. An operator acknowledges this on the page Stores.</span>
    </div>`);
}

export function Failure({ error, at }) {
  if (!error) return null;
  const title = error.status === 403 ? "Access denied" : isDown(error) ? "No response" : "Request refused";
  const dataNote = at ? ` Showing data from ${moment(at)} (${clock(at)}).` : isDown(error) ? " No earlier data is available." : "";
  return html`
    <div class="note bad" role="alert">
      <span><strong>${title}.</strong> ${error.status === 403 && !error.message ? "This page requires an operator's key." : sentence(error.message)}${dataNote}</span>
      ${isDown(error) && html`<button type="button" onClick=${askAgain}>Retry</button>`}
    </div>`;
}

const sentence = (text) => {
  const told = visible(text);
  return `${told.charAt(0).toUpperCase()}${told.slice(1)}${/[.?!]$/.test(told) ? "" : "."}`;
};

export const Panel = ({ title, aside, children, flush, label }) => html`
  <section class=${cx("panel", flush && "flush")} aria-label=${label ?? title}>
    ${(title || aside) && html`<div class="panel-head"><h2>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</div>`}
    ${children}
  </section>`;

export const Empty = ({ children, title }) => html`
  <div class="empty"><p class="empty-title">${title}</p>${children && html`<p>${children}</p>`}</div>`;

export const Waiting = ({ children = "Loading…" }) => html`<p class="waiting" role="status">${children}</p>`;

export const Badge = ({ tone, children, title }) => html`<span class=${cx("badge", tone)} title=${title}>${children}</span>`;

const STATE_TONES = {
  active: "good", stored: "good", succeeded: "good", accepted: "good", fresh: "good", vouched: "good",
  superseded: "soft", corrected: "soft", merged: "soft", retired: "soft", revoked: "soft", closed: "soft",
  forgotten: "warn", deferred: "warn", stale: "warn", aging: "warn", retry_waiting: "warn", leased: "accent", handed_off: "warn", outside: "warn",
  deleted: "bad", failed: "bad", rejected: "bad", erased: "bad", dead_letter: "bad", blocked: "bad",
};
export const State = ({ state }) => html`<${Badge} tone=${STATE_TONES[state] ?? ""}>${words(state)}<//>`;

const BOUND = 3_000;
/** A stored text: bounded, whole on demand, and never anything but text. */
export function Text({ text, lines, whole = false, inline = false }) {
  const [open, setOpen] = useState(false);
  const told = String(text ?? "");
  const shown = whole && (open || told.length <= BOUND) ? told : told.slice(0, whole ? BOUND : 600);
  const rest = told.length > shown.length;
  if (inline) return html`<bdi class="text">${visible(shown)}${rest ? "…" : ""}</bdi>`;
  return html`
    <div class=${cx("text", lines && "clamp")} dir="auto" style=${lines ? { "--lines": lines } : undefined}>${visible(shown)}${rest ? "…" : ""}</div>
    ${whole && rest && html`<button type="button" class="quiet" onClick=${() => setOpen(true)}>Show all ${count(told.length)} characters</button>`}`;
}

export const Field = ({ label, hint, children, wide }) => {
  const id = useId();
  const child = Array.isArray(children) ? children[0] : children;
  return html`
    <div class=${cx("field", wide && "wide")}>
      <label for=${id}>${label}</label>
      ${h(child.type, { ...child.props, id, "aria-describedby": hint ? `${id}h` : undefined })}
      ${hint && html`<small id=${`${id}h`}>${hint}</small>`}
    </div>`;
};

export const Select = ({ value, options, onChange, ...rest }) => html`
  <select ...${rest} value=${value} onChange=${(event) => onChange(event.currentTarget.value)}>
    ${options.map(([key, label]) => html`<option key=${key} value=${key} selected=${key === value}>${label}</option>`)}
  </select>`;

export const Check = ({ label, checked, onChange, disabled }) => html`
  <label class="check"><input type="checkbox" checked=${checked} disabled=${disabled}
    onChange=${(event) => onChange(event.currentTarget.checked)} /><span>${label}</span></label>`;

export const Button = ({ kind, busy, children, ...rest }) => html`
  <button type="button" class=${kind} disabled=${busy} aria-busy=${busy ? "true" : undefined} ...${rest}>${children}</button>`;

export const Pairs = ({ rows }) => html`
  <dl class="pairs">${rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => html`
    <div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

export const Figure = ({ label, value, note, tone }) => html`
  <div class=${cx("figure", tone)}><span class="figure-label">${label}</span><span class="figure-value">${value}</span>
    ${note && html`<span class="figure-note">${note}</span>`}</div>`;

/** A modal window. Escape and the button close it; the focus goes back to where it was. */
export function Dialog({ title, onClose, children, wide }) {
  const ref = useRef(null);
  const id = useId();
  useLayoutEffect(() => {
    const node = ref.current;
    const before = document.activeElement;
    node.showModal();
    return () => { if (node.open) node.close(); if (before?.isConnected) before.focus?.(); };
  }, []);
  return html`
    <dialog ref=${ref} class=${cx("dialog", wide && "wide")} aria-labelledby=${id} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
      <div class="dialog-head"><h2 id=${id}>${title}</h2><button type="button" class="icon" aria-label="Close" onClick=${onClose}>✕</button></div>
      <div class="dialog-body">${children}</div>
    </dialog>`;
}

/** A table of rows that may be opened; a `wide` one puts its cells in lines where it has no room. `columns` are [heading, cell of a row, class]. */
export const Table = ({ columns, rows, keyOf, label, onOpen, current, wide }) => html`
  <div class="table-wrap"><table class=${cx("table", wide && "wide")} aria-label=${label}>
    <thead><tr>${columns.map(([heading, , kind]) => html`<th scope="col" class=${kind} key=${heading}>${heading}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`
      <tr key=${keyOf(row)} class=${cx(onOpen && "opens", current === keyOf(row) && "current")} onClick=${onOpen ? (event) => { if (!event.target.closest("a,button,input,select,label")) onOpen(row); } : undefined}>
        ${columns.map(([heading, cell, kind]) => html`<td class=${kind} data-label=${heading} key=${heading}><div>${cell(row)}</div></td>`)}</tr>`)}</tbody>
  </table></div>`;

/** Bars of numbers over time; drawn, and said in a sentence for those who do not see it. */
export function Bars({ values, label, height = 36 }) {
  const most = Math.max(1, ...values);
  const width = 100 / values.length;
  return html`
    <svg class="bars" viewBox="0 0 100 ${height}" preserveAspectRatio="none" role="img" aria-label=${label}>
      ${values.map((value, place) => {
        const tall = value ? Math.max(1.5, (value / most) * (height - 2)) : 0.5;
        return html`<rect key=${place} class=${value ? "" : "none"} x=${place * width} y=${height - tall} width=${width * 0.72} height=${tall} />`;
      })}
    </svg>`;
}

/** A share of a whole as a bar with its figures beside it. */
export const Meter = ({ label, part, whole, note }) => html`
  <div class="meter"><div class="meter-text"><span>${label}</span><span class="soft">${note}</span></div>
    <div class="meter-track">${part > 0 && html`<div class="meter-fill" style=${{ width: `${whole ? Math.min(100, (part / whole) * 100) : 0}%` }}></div>`}</div></div>`;
