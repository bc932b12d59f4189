// Skills: what procedures were learned, are they used, and are they any good?
import { Badge, Button, Check, Dialog, Empty, Failure, Field, Page, Pairs, Panel, State, Table, Text, Waiting, ask, count, html, moment, plural, setQuery, useAction, useAddress, useArrival, useLoad, useSession, useState, words } from "../lib.mjs";

export default function Skills() {
  const { space } = useSession();
  const { query } = useAddress();
  const at = `?space=${encodeURIComponent(space)}`;
  const list = useLoad(({ signal }) => ask("GET", `/skills${at}`, undefined, { signal }), [space]);
  const name = query.get("name");
  const { data } = list;
  return html`
    <${Page} title="Skills" question="Which procedures were learned, are they used, and do they work?" loading=${list.loading} error=${list.error} at=${data && list.at}
      actions=${data && html`<span class="soft small">${plural(data.total, "skill")}: ${count(data.active)} active, ${count(data.disabled)} disabled, ${count(data.retired)} retired</span>`}>
      ${!data ? list.loading && html`<${Waiting} />` : html`
        <div class=${name ? "split" : ""}>
          <${Panel} flush label="Learned skills">
            ${data.runtime_skills.length ? html`
              <${Table} label="Learned skills" rows=${data.runtime_skills} keyOf=${(skill) => skill.name} current=${name} onOpen=${(skill) => setQuery({ name: skill.name })} columns=${[
                ["Skill", (skill) => html`<button type="button" class="open-row" onClick=${() => setQuery({ name: skill.name })}><${Text} text=${skill.title} lines="2" /><span class="soft small"><bdi>${skill.topic}</bdi></span></button>`, "grow"],
                ["State", (skill) => html`<${State} state=${skill.enabled ? skill.state : "off"} />`],
                ["Quality", (skill) => count(skill.quality), "num"],
                ["Used", (skill) => count(skill.use_count), "num"],
                ["Helped", (skill) => count(skill.validated_count), "num"],
                ["Failed", (skill) => count(skill.mismatch_count), "num"],
              ]} />` : html`<${Empty} title="No skills yet">Agents learn procedures from successful work; maintenance and hosts store them.<//>`}
          <//>
          ${name && html`<${Skill} key=${name} name=${name} at=${at} onChange=${list.reload} onGone=${() => { setQuery({ name: null }); list.reload(); }} />`}
        </div>`}
    <//>`;
}

function Skill({ name, at, onChange, onGone }) {
  const path = `/skills/${encodeURIComponent(name)}`;
  const own = useArrival();
  const { data, error, loading, at: when, reload } = useLoad(({ signal }) => ask("GET", `${path}${at}`, undefined, { signal }), [path, at]);
  const [form, setForm] = useState(null);
  const changed = () => { setForm(null); reload(); onChange(); };
  const { busy, error: refused, run } = useAction(async (enabled) => {
    await ask("PATCH", `${path}/enabled${at}`, { enabled });
    changed();
  });
  if (!data) return html`<div ref=${own} tabindex="-1" class="detail panel">${loading ? html`<${Waiting} />` : html`<${Failure} error=${error} />`}</div>`;
  const { skill } = data;
  return html`
    <section ref=${own} tabindex="-1" class="detail panel" aria-label="The skill">
      <div class="detail-head"><div><h2><bdi>${skill.title}</bdi></h2><p class="id">${skill.name}</p></div>
        <button type="button" class="icon" aria-label="Close" onClick=${() => setQuery({ name: null })}>✕</button></div>
      <${Failure} error=${error} at=${when} />
      <${Text} text=${skill.summary} whole />
      <div class="row">
        <${Button} busy=${busy} onClick=${() => run(!skill.enabled)}>${skill.enabled ? "Disable" : "Enable"}<//>
        <${Button} onClick=${() => setForm("edit")}>Edit<//>
        <${Button} kind="danger" onClick=${() => setForm("delete")}>Delete<//>
      </div>
      <${Failure} error=${refused} />
      <hr />
      <div><h3>Procedure</h3><${Text} text=${data.procedure} whole /></div>
      <${Pairs} rows=${[
        ["State", html`<${State} state=${skill.state} /> ${!skill.enabled && html`<${Badge}>off<//>`}`],
        ["Revision", count(skill.revision)], ["Origin", `${words(skill.origin)}, ${words(skill.source)}`],
        ["Observed", moment(skill.observed_at)], ["Changed", moment(skill.updated_at)],
        ["Last used", skill.last_used_at ? moment(skill.last_used_at) : "never"],
        ["Last outcome", data.last_outcome_note && html`<${Text} inline text=${data.last_outcome_note} />`],
        ["Sources", data.citations.length ? html`<span class="id">${data.citations.join(", ")}</span>` : "none cited"],
        ["Superseded by", skill.superseded_by && html`<span class="id">${skill.superseded_by}</span>`],
      ]} />
      ${data.strategy_diffs.length > 0 && html`<div><h3>Revisions</h3><ul class="history">${data.strategy_diffs.map((diff, place) => html`
        <li key=${place}><span>${moment(diff.at)}</span><${Text} text=${diff.reason || "no reason given"} lines="2" /></li>`)}</ul></div>`}
      ${form === "edit" && html`<${Edit} data=${data} path=${`${path}${at}`} onClose=${() => setForm(null)} onDone=${changed} />`}
      ${form === "delete" && html`<${Remove} skill=${skill} path=${`${path}${at}`} onClose=${() => setForm(null)} onDone=${onGone} />`}
    </section>`;
}

function Edit({ data, path, onClose, onDone }) {
  const { skill } = data;
  const [draft, setDraft] = useState({ title: skill.title, topic: skill.topic, summary: skill.summary, procedure: data.procedure, edit_reason: "" });
  const set = (name) => (event) => setDraft({ ...draft, [name]: event.currentTarget.value });
  const { busy, error, run } = useAction(async () => {
    const before = { title: skill.title, topic: skill.topic, summary: skill.summary, procedure: data.procedure, edit_reason: "" };
    const change = Object.fromEntries(Object.entries(draft).filter(([name, value]) => value !== before[name]));
    const report = await ask("PATCH", path, change);
    if (report.refused) throw new Error(`${words(report.refused)}. ${report.reason ?? ""}`);
    onDone();
  });
  return html`
    <${Dialog} title="Edit the skill" onClose=${onClose} wide>
      <form class="form" onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <${Field} label="Title"><input value=${draft.title} onInput=${set("title")} required /><//>
        <${Field} label="Topic"><input value=${draft.topic} onInput=${set("topic")} required /><//>
        <${Field} label="Summary"><textarea value=${draft.summary} onInput=${set("summary")}></textarea><//>
        <${Field} label="Procedure"><textarea rows="9" value=${draft.procedure} onInput=${set("procedure")} required></textarea><//>
        <${Field} label="Reason" hint="Recorded with the revision."><input value=${draft.edit_reason} onInput=${set("edit_reason")} /><//>
        <${Failure} error=${error} />
        <div class="row"><button type="submit" class="primary" disabled=${busy}>Save revision</button><button type="button" onClick=${onClose}>Cancel</button></div>
      </form>
    <//>`;
}

function Remove({ skill, path, onClose, onDone }) {
  const [sure, setSure] = useState(false);
  const { busy, error, run } = useAction(async () => { await ask("DELETE", path); onDone(); });
  return html`
    <${Dialog} title="Delete the skill" onClose=${onClose}>
      <p>This deletes <bdi>${skill.title}</bdi>. It may be learned again.</p>
      <${Check} label="Delete this skill" checked=${sure} onChange=${setSure} />
      <${Failure} error=${error} />
      <div class="row"><${Button} kind="danger primary" busy=${busy || !sure} onClick=${run}>Delete<//><${Button} onClick=${onClose}>Cancel<//></div>
    <//>`;
}
