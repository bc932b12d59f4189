// Overview: is everything well, and what happened today?
import { Badge, Bars, Empty, Failure, Figure, Losses, OtherSpaces, Page, Pairs, Panel, Table, Waiting, ask, bytes, clock, count, html, linkTo, millis, moment, plural, span, useLoad, useOperation, useSession, words } from "../lib.mjs";

const MINUTE = 60_000;

const lastHour = (minutes, now) => {
  const begin = now - (now % MINUTE) - 59 * MINUTE;
  const values = Array.from({ length: 60 }, () => 0);
  for (const row of minutes) {
    const place = Math.round((row.at - begin) / MINUTE);
    if (place >= 0 && place < 60) values[place] = row.calls;
  }
  return values;
};

export default function Overview() {
  const session = useSession();
  return session.operator ? html`<${ServerOverview} />` : html`<${SpaceOverview} />`;
}

function ServerOverview() {
  const { space } = useSession();
  const { data, error, loading, at, reload } = useLoad(
    ({ signal }) => ask("GET", `/overview${space ? `?space=${encodeURIComponent(space)}` : ""}`, undefined, { signal }), [space]);
  const actions = html`<span class="soft small">${at ? `Updated at ${clock(at)}` : ""}</span><button type="button" onClick=${reload}>Refresh</button>`;
  return html`
    <${Page} title="Overview" question="Is everything well, and what happened today?" actions=${actions} loading=${loading} error=${error} at=${data && at}>
      ${!data ? loading && html`<${Waiting} />` : html`<${Server} data=${data} space=${space} />`}
    <//>`;
}

function Server({ data, space }) {
  const { runtime, calls, storage, system, kernel, keys } = data;
  const row = (name) => calls.operations.find((found) => found.operation === name);
  const values = lastHour(calls.minutes, data.at);
  const open = Object.entries(keys.open);
  const lacking = Object.entries(data.capabilities).filter(([, there]) => !there);
  return html`
    <div class="figures" role="group" aria-label="Figures">
      <${Figure} label="Entries today" value=${data.space ? count(data.space.today.entries) : "–"} note=${data.space ? "in this space, UTC" : "select a space"} />
      <${Figure} label="Recalls" value=${count(row("recall")?.calls ?? 0)} note=${row("recall") ? `${millis(row("recall").mean_ms)} on average, this node` : "none on this node yet"} />
      <${Figure} label="Projections" value=${count(row("project")?.calls ?? 0)} note=${row("project") ? `${millis(row("project").mean_ms)} on average, this node` : "none on this node yet"} />
      <${Figure} label="Refused calls" tone=${calls.refused ? "warn" : ""} value=${count(calls.refused)} note=${`of ${count(calls.total)} on this node`} />
      <${Figure} label="Spaces" value=${`${count(data.spaces)}${data.spaces_clipped ? "+" : ""}`} note="in the store" />
      <${Figure} label="Store" value=${bytes(storage.store_bytes)} note=${storage.free_bytes !== undefined ? `${bytes(storage.free_bytes)} free` : "size unknown"} />
    </div>
    <div class="grid calls">
      <${Panel} title="Calls on this node in the last hour" flush aside=${`${plural(calls.running, "running", "running")}, ${count(calls.waiting)} waiting`}>
        <div class="inset"><${Bars} values=${values} label=${`Calls per minute in the last hour: ${count(values.reduce((sum, value) => sum + value, 0))} in all, ${count(Math.max(...values))} in the busiest minute`} />
        <div class="axis"><span>an hour ago</span><span>now</span></div></div>
        ${calls.operations.length ? html`
          <${Table} label="Calls by operation" rows=${calls.operations.slice(0, 8)} keyOf=${(found) => found.operation} columns=${[
            ["Operation", (found) => words(found.operation), "grow"],
            ["Calls", (found) => count(found.calls), "num"],
            ["Refused", (found) => count(found.refused), "num"],
            ["Mean", (found) => millis(found.mean_ms), "num"],
            ["Longest", (found) => millis(found.longest_ms), "num"],
          ]} />` : html`<${Empty} title="No calls yet">Counting since ${moment(calls.since)}.<//>`}
      <//>
      <${Panel} title="Newest journal entries" aside=${data.space ? html`<bdi>${data.space.space}</bdi>` : "no space selected"} flush>
        ${data.space?.recent.length ? html`
          <ul class="list">${data.space.recent.slice(0, 8).map((entry) => html`
            <li key=${entry.sequence}><div class="row between"><span>${words(entry.action)} <span class="soft">${words(entry.plane)}</span></span><span class="soft small">${moment(entry.at)}</span></div></li>`)}</ul>`
          : html`<${Empty} title="Nothing is stored here yet"><${OtherSpaces} /><//>`}
      <//>
    </div>
    <div class="grid four">
      <${Panel} title="Runtime on this node" aside=${html`<${Badge} tone=${runtime.ready ? "good" : "bad"}>${runtime.ready ? "ready" : "not ready"}<//>`}>
        <${Pairs} rows=${[
          ["Uptime", span(runtime.uptime_ms)],
          ["Version", runtime.version],
          ["Store", runtime.store && html`<span class="mono">${runtime.store}</span>`],
          ["Engine", runtime.engine],
          ["Profile", runtime.profile],
          ["Protocols", runtime.protocols.join(", ")],
          ["Last backup", storage.backed_up_at ? moment(storage.backed_up_at) : "unknown"],
        ]} />
      <//>
      <${Panel} title="Machine">
        <${Pairs} rows=${[
          ["System", `${system.system}, ${system.machine}`],
          ["Processors", count(system.cpus)],
          ["Load", system.load],
          ["Free memory", system.memory_bytes ? `${bytes(system.available_bytes)} of ${bytes(system.memory_bytes)}` : null],
          ["This process", system.process_bytes ? bytes(system.process_bytes) : null],
          ["Clock", moment(system.time)],
        ]} />
      <//>
      <${Panel} title="Recall on this node" aside=${html`<a href=${linkTo("server")}>Models</a>`}>
        <${Pairs} rows=${[
          ["Indexes in memory", `${count(kernel.indexes)}, ${bytes(kernel.index_bytes)}`],
          ["Embedder", kernel.embedder ?? "none: uses built-in vectors and words"],
          ["Language model", kernel.language_model ?? "none: uses rules"],
          ["Reranker", kernel.reranker ?? "none"],
          ["Unavailable", lacking.length ? lacking.map(([name]) => words(name)).join(", ") : "none"],
        ]} />
      <//>
      <${Panel} title="Keys" aside=${html`<a href=${linkTo("devices")}>All keys</a>`}>
        <${Pairs} rows=${[
          ...open.map(([kind, number]) => [`${words(kind)} keys`, count(number)]),
          ["Revoked", count(keys.revoked)],
          ["Transports used on this node", Object.entries(calls.transports).map(([name, number]) => `${name} ${count(number)}`).join(", ") || "none yet"],
        ]} />
      <//>
    </div>
    ${space && html`<${SpaceFigures} />`}`;
}

function SpaceOverview() {
  return html`<${Page} title="Overview" question="What does your memory contain?"><${SpaceFigures} /><//>`;
}

function SpaceFigures() {
  const { space } = useSession();
  const { data, error, loading, at, reload } = useLoad(({ signal }) => ask("GET", `/contents?space=${encodeURIComponent(space)}`, undefined, { signal }), [space]);
  const planes = data ? Object.entries(data.planes).filter(([, number]) => number) : [];
  return html`
    <${Panel} title=${html`Contents of the space <bdi>${space}</bdi>`} label="Contents of the space" aside=${html`${at ? `updated at ${clock(at)}` : ""}<button type="button" class="quiet" onClick=${reload}>Refresh</button>`}>
      <${Failure} error=${error} at=${data && at} />
      ${loading && !data && html`<${Waiting}>Counting…<//>`}
      ${data && html`<${Losses} losses=${data.losses} />`}
      ${data && (data.exists && planes.length ? html`
        <div class="grid">
          <${Pairs} rows=${planes.map(([plane, number]) => [words(plane), html`<a href=${linkTo("memories", { plane })}>${count(number)}</a>`])} />
          <${Pairs} rows=${[
            ["Conversations", count(data.conversations)],
            ["Speakers", data.speakers.length ? html`<bdi>${data.speakers.slice(0, 8).join(", ")}</bdi>` : "none named"],
            ["First", moment(data.first_at)],
            ["Latest", moment(data.last_at)],
            ["Jobs", `${words(data.work)}${Object.keys(data.jobs).length ? `: ${Object.entries(data.jobs).map(([state, number]) => `${number} ${words(state)}`).join(", ")}` : ""}`],
            ["Without a vector", data.compared_model ? count(data.unembedded_units) : "vectors are off"],
          ]} />
        </div>` : html`<${Empty} title=${data.losses?.length ? "Nothing is left in the space" : "The space is empty"}>What agents and programs store appears here. Try: elytron add "Ada likes green tea."<${OtherSpaces} /><//>`)}
    <//>`;
}
