// People: what is known about someone, and who takes part here?
import { Badge, Check, Empty, Failure, Page, Pairs, Panel, State, Text, Waiting, count, day, html, linkTo, plural, setQuery, useAddress, useClocks, useEffect, useLoad, useOperation, useState, words } from "../lib.mjs";

export default function People() {
  const { query } = useAddress();
  const operation = useOperation();
  const clocks = useClocks();
  const person = query.get("person") ?? "";
  const secret = query.has("private");
  const [text, setText] = useState(person);
  useEffect(() => { setText(query.get("person") ?? ""); }, [query.get("person")]);
  const { data, error, loading, at } = useLoad(({ signal }) => operation("profile", { person, include_private: secret, limit: 100, ...clocks }, {}, { signal }), [operation, person, secret, clocks]);
  const lines = data ? data.groups.reduce((sum, group) => sum + group.lines.length, 0) : 0;
  return html`
    <${Page} title="People" question="What is known about someone, and on what evidence?" loading=${loading} error=${error} at=${data && at}>
      <form class="toolbar" role="search" onSubmit=${(event) => { event.preventDefault(); setQuery({ person: text.trim() }); }}>
        <div class="grow"><input type="search" aria-label="Person's name" placeholder="Name (empty: this space's user)" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /><button class="primary" type="submit">Show</button></div>
        <${Check} label="Include private" checked=${secret} onChange=${(on) => setQuery({ private: on ? "1" : null })} />
      </form>
      <div class="grid calls">
        <div class="form">
          ${!data ? loading && html`<${Waiting} />` : lines === 0 ? html`<${Panel} label="What is known"><${Empty} title="Nothing is known">No current fact is about ${person ? html`“<bdi>${person}</bdi>”` : "the user of this space"}. ${data.withheld ? `${plural(data.withheld, "private fact was", "private facts were")} excluded.` : ""}<//><//>` : html`
            ${data.groups.map((group) => html`
              <${Panel} key=${group.kind} title=${words(group.kind)} flush aside=${plural(group.lines.length, "fact")}>
                <ul class="list">${group.lines.map((line) => html`
                  <li key=${line.id}><a class="open-row" href=${linkTo("facts", { id: line.id, states: "all" })}><${Text} text=${line.content} lines="3" /></a>
                    <div class="meta"><bdi>${line.topic}</bdi><span>seen ${day(line.observed_at)}</span>${line.valid_to !== undefined && html`<span>to ${day(line.valid_to)}</span>`}<span>${line.confidence}</span>${line.trust !== "vouched" && html`<${State} state=${line.trust} />`}${line.hint !== "none" && html`<${Badge} tone="warn">${line.hint === "verify" ? "verify" : "review"}<//>`}${line.privacy === "private" && html`<${Badge} tone="warn">private<//>`}${line.bearing === "named" && html`<span>mentions the person</span>`}
                      ${line.evidence.slice(0, 4).map((id) => html`<a key=${id} class="id" href=${linkTo("memories", { id })}>evidence</a>`)}</div></li>`)}</ul>
              <//>`)}
            ${data.left_out > 0 && html`<p class="soft">${plural(data.left_out, "more fact")} after the first 100.</p>`}`}
        </div>
        <div class="form">
          ${data && html`<${Panel} title="Details"><${Pairs} rows=${[["Person", html`<bdi>${data.person || "the user"}</bdi>`], ["Names searched for", data.names.length ? html`<bdi>${data.names.join(", ")}</bdi>` : null], ["Facts", count(lines)], ["Private excluded", count(data.withheld)]]} /><//>`}
          <${Subjects} onPerson=${(name) => { setText(name); setQuery({ person: name }); }} />
        </div>
      </div>
    <//>`;
}

function Subjects({ onPerson }) {
  const operation = useOperation();
  const { data, error, at } = useLoad(({ signal }) => operation("read_subjects", {}, {}, { signal }), [operation]);
  return html`
    <${Panel} title="Participants" flush>
      <${Failure} error=${error} at=${data && at} />
      ${data && (data.subjects.length ? html`<ul class="list">${data.subjects.map((subject) => html`
        <li key=${subject.id}><div class="row between"><button type="button" class="quiet" onClick=${() => onPerson(subject.name)}><bdi>${subject.name}</bdi></button><span class="soft small">${words(subject.kind)}</span></div>
          <div class="meta">${subject.lifecycle !== "active" && html`<${State} state=${subject.lifecycle} />`}${subject.other_names.length > 0 && html`<bdi>also ${subject.other_names.join(", ")}</bdi>`}${data.edges.filter((edge) => edge.source === subject.name).map((edge) => html`<span key=${`${edge.kind}${edge.target}`}>${words(edge.kind)} <bdi>${edge.target}</bdi></span>`)}</div></li>`)}</ul>` : html`<${Empty} title="No participants yet">Hosts register participants, such as people and agents, and their relations.<//>`)}
    <//>`;
}
