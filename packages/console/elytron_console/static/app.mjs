// The frame: who is signed in, the space that is shown, the pages and the way between them.
import { Failure, Page, Select, Session, Waiting, ask, cx, forgetKnown, html, keepToken, linkTo, moment, render, setQuery, setShownSpace, useAction, useAddress, useCallback, useEffect, useErrorBoundary, useMemo, useRef, useState, whenSignedOut, words } from "./lib.mjs";

// Of each page: its name, its title, and what of the session it needs.
const PAGES = [
  ["Browse", [
    ["overview", "Overview"],
    ["people", "People"],
    ["memories", "Memories"],
    ["facts", "Facts"],
    ["conversations", "Conversations"],
    ["timeline", "Timeline"],
  ]],
  ["Explain", [
    ["recall", "Recall lab"],
    ["projection", "Projection"],
  ]],
  ["Manage", [
    ["review", "Review queue"],
    ["skills", "Skills"],
    ["tools", "Tools"],
    ["erasures", "Erasures"],
    ["transfer", "Import and export"],
  ]],
  ["Monitor", [
    ["agents", "Agents", "agents"],
    ["jobs", "Jobs"],
    ["spending", "Spending"],
    ["journal", "Journal"],
  ]],
  ["Server", [
    ["spaces", "Spaces", "operator"],
    ["stores", "Stores", "operator"],
    ["devices", "Keys and devices", "operator"],
    ["gateway", "LLM gateway", "operator"],
    ["server", "Server", "operator"],
    ["docs", "API"],
  ]],
];
const KNOWN = new Map(PAGES.flatMap(([, pages]) => pages.map((page) => [page[0], page])));
const NOW = { asOf: null, knownAt: null };
const THEME = "elytron.theme";

const kept = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a browser that stores nothing */ } };

function SignIn({ onIn, note }) {
  const [key, setKey] = useState("");
  const input = useRef(null);
  useEffect(() => { document.title = "Sign in · Elytron"; input.current?.focus(); }, []);
  const { busy, error, run } = useAction(async () => {
    const session = await ask("POST", "/session", undefined, { key: key.trim() });
    setKey("");
    onIn(session);
  });
  return html`
    <main class="sign-in">
      <form onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <${Brand} />
        <h1>Sign in</h1>
        <p class="soft">${note ?? "Use an access key of this server. An operator creates one with: elytron access add."}</p>
        <label for="key">Access key</label>
        <input id="key" ref=${input} type="password" autocomplete="off" spellcheck="false" required placeholder="ely_…"
          value=${key} onInput=${(event) => setKey(event.currentTarget.value)} />
        <button class="primary" type="submit" disabled=${busy || !key.trim()}>${busy ? "Signing in…" : "Sign in"}</button>
        ${error && html`<div class="note bad" role="alert">${error.status === 401 ? "This access key is not valid here." : error.message}</div>`}
      </form>
    </main>`;
}

const Brand = () => html`
  <span class="brand"><svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" /><path d="M9 8h14v4H13v2h8v4h-8v2h10v4H9z" /></svg>Elytron</span>`;

function Spaces({ session, space, onSpace }) {
  const [other, setOther] = useState(false);
  if (!session.operator) return html`<span class="space-name" title="The space of your key"><bdi>${space}</bdi></span>`;
  const names = [...new Set([...(space ? [space] : []), ...session.spaces])].sort();
  if (other || !names.length) {
    return html`
      <form class="space-form" onSubmit=${(event) => { event.preventDefault(); const name = new FormData(event.currentTarget).get("space").trim(); if (name) { setOther(false); onSpace(name); } }}>
        <input name="space" aria-label="Space name" placeholder="Space name" autocomplete="off" />
        <button type="submit">Show</button>
      </form>`;
  }
  const options = [...names.map((name) => [name, name]), ["", session.spaces_clipped ? "Other (list is incomplete)…" : "Other…"]];
  return html`<${Select} aria-label="Space" class="space-select" value=${space} options=${options} onChange=${(name) => (name ? onSpace(name) : setOther(true))} />`;
}

function Theme() {
  const [theme, setTheme] = useState(kept(THEME) ?? "auto");
  useEffect(() => {
    document.documentElement.style.colorScheme = theme === "auto" ? "light dark" : theme;
    keep(THEME, theme);
  }, [theme]);
  return html`<${Select} aria-label="Colour theme" class="theme" value=${theme} onChange=${setTheme}
    options=${[["auto", "System theme"], ["light", "Light"], ["dark", "Dark"]]} />`;
}

function Loaded({ page }) {
  const [found, setFound] = useState({ page: null, View: null, error: null });
  const [broken, mend] = useErrorBoundary();
  const { query } = useAddress();
  useEffect(() => { if (broken) mend(); }, [query.toString()]);
  useEffect(() => {
    let gone = false;
    import(`./pages/${page}.mjs`).then(
      (module) => gone || setFound({ page, View: module.default, error: null }),
      () => gone || setFound({ page, View: null, error: { message: "This part of the console could not be loaded.", status: 0 } }),
    );
    return () => { gone = true; };
  }, [page]);
  if (broken) return html`<${Page} title=${KNOWN.get(page)[1]} error=${{ status: 0, message: `This address could not be displayed: ${broken.message}` }}><p><a href=${linkTo(page)}>Open the page with default settings</a></p><//>`;
  if (found.page !== page) return html`<${Waiting} />`;
  return found.View ? html`<${found.View} />` : html`<${Failure} error=${found.error} />`;
}

function Frame({ session, onOut }) {
  const { page, query } = useAddress();
  const named = query.get("space");
  const last = useRef(null);
  const space = session.operator ? named || (last.current ?? session.default_space ?? session.spaces[0] ?? null) : session.space;
  const foreign = !session.operator && named && named !== space ? named : null;
  last.current = space;
  setShownSpace(space);
  useEffect(() => { if (space && !named) setQuery({ space }, { quiet: true }); }, [space, named]);
  const [open, setOpen] = useState(false);
  const main = useRef(null);
  const [clocks, setClocks] = useState(NOW);
  const choose = useCallback((name) => { location.hash = linkTo(page, { space: name }); }, [page]);
  useEffect(() => setClocks(NOW), [space]);
  const value = useMemo(() => ({ ...session, space, choose, clocks, setClocks }), [session, space, choose, clocks]);
  useEffect(() => {
    setOpen(false);
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [page]);
  const known = KNOWN.get(page);
  const allowed = known && (!known[2] || session[known[2]]);
  return html`
    <${Session.Provider} value=${value}>
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to content</a>
      <header class="top">
        <button type="button" class="icon menu" aria-expanded=${open ? "true" : "false"} aria-controls="nav" aria-label="Pages" onClick=${() => setOpen(!open)}>☰</button>
        <${Brand} />
        <div class="top-space"><${Spaces} session=${session} space=${space} onSpace=${choose} /></div>
        <div class="top-end">
          <${Theme} />
          <span class="who" title=${session.principal}>${session.label || words(session.kind)}</span>
          ${!session.development && html`<button type="button" class="quiet" onClick=${onOut}>Sign out</button>`}
        </div>
      </header>
      <nav id="nav" class=${cx("nav", open && "open")} aria-label="Pages">
        ${PAGES.map(([group, pages]) => {
          const shown = pages.filter(([, , needs]) => !needs || session[needs]);
          return shown.length > 0 && html`
            <div key=${group}><h2>${group}</h2><ul>${shown.map(([name, title]) => html`
              <li key=${name}><a href=${linkTo(name)} aria-current=${name === page ? "page" : undefined}>${title}</a></li>`)}</ul></div>`;
        })}
        <p class="nav-foot">Version ${session.version}</p>
      </nav>
      <main id="main" ref=${main} tabindex="-1">
        ${(clocks.asOf !== null || clocks.knownAt !== null) && page !== "timeline" && html`
          <div class="note clocks" role="status"><span>Lists show what was true ${clocks.asOf ? html`on <strong>${moment(clocks.asOf)}</strong>` : "now"}${clocks.knownAt ? html`, as known on <strong>${moment(clocks.knownAt)}</strong>` : ""}.</span>
            <span class="row"><a href=${linkTo("timeline")}>Change dates</a><button type="button" class="quiet" onClick=${() => setClocks(NOW)}>Back to now</button></span></div>`}
        ${!known ? html`<${Page} title="Page not found"><p>The console has no page at this address.</p><//>`
          : !allowed && known[2] === "agents" ? html`<${Page} title=${known[1]}><p class="empty-title">This server has no agents.</p><p class="soft">To enable them, start it with: elytron serve --agent-model.</p><//>`
          : foreign ? html`<${Page} title=${known[1]}><p class="empty-title">This key has no access to the space <bdi>${foreign}</bdi>.</p><p class="soft">Its space is <a href=${linkTo(page)}><bdi>${space}</bdi></a>.</p><//>`
          : !allowed ? html`<${Page} title=${known[1]} error=${{ status: 403, message: "" }} />`
          : !space && known[2] !== "operator" && page !== "overview" && page !== "docs" ? html`<${Page} title=${known[1]}><p class="empty-title">Select a space first.</p><p class="soft">This key has access to every space of the server. Select one above.</p><//>`
          : html`<${Loaded} key=${`${page} ${space}`} page=${page} />`}
      </main>
    <//>`;
}

function App() {
  const [state, setState] = useState({ phase: "asking" });
  const enter = useCallback((session) => { keepToken(session.token); setState({ phase: "in", session }); }, []);
  useEffect(() => {
    whenSignedOut(() => { forgetKnown(); setState((before) => ({ phase: "out", note: before.phase === "in" ? "Your session has ended. Sign in again to return to this page." : undefined })); });
    ask("GET", "/session").then(enter, (error) => { if (error.status !== 401) setState({ phase: "broken", error }); });
  }, []);
  const leave = async () => {
    try { await ask("DELETE", "/session"); } catch { /* it is over here in any case */ }
    keepToken("");
    forgetKnown();
    setState({ phase: "out", note: "You have signed out." });
  };
  if (state.phase === "in") return html`<${Frame} session=${state.session} onOut=${leave} />`;
  if (state.phase === "out") return html`<${SignIn} onIn=${enter} note=${state.note} />`;
  if (state.phase === "broken") return html`<main class="sign-in"><div><${Brand} /><${Failure} error=${state.error} /><p><button type="button" onClick=${() => location.reload()}>Try again</button></p></div></main>`;
  return html`<main class="sign-in"><${Waiting} /></main>`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
