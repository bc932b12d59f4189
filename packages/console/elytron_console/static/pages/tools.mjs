// Tools: which tools did hosts register, and what has using them taught?
import { Badge, Empty, Figure, Page, Panel, Table, Waiting, count, html, useLoad, useOperation } from "../lib.mjs";

export default function Tools() {
  const operation = useOperation();
  const { data, error, loading, at } = useLoad(({ signal }) => operation("list_agent_tool_registries", {}, {}, { signal }), [operation]);
  return html`
    <${Page} title="Tools" question="Which tools did hosts register, and what was learned from using them?" loading=${loading} error=${error} at=${data && at}>
      ${!data ? loading && html`<${Waiting} />` : html`
        <div class="figures" role="group" aria-label="Figures">
          <${Figure} label="Registries" value=${count(data.report.registries)} />
          <${Figure} label="Tools" value=${count(data.report.tools)} note=${`${count(data.report.disabled_tools)} disabled`} />
          <${Figure} label="Experiences" value=${count(data.report.governed_experiences)} note="confirmed and used as hints" />
          <${Figure} label="Single successes" value=${count(data.report.candidate_experiences)} note="not yet repeated" />
          <${Figure} label="Outdated" value=${count(data.report.stale_experiences)} note="the tool or schema is gone" tone=${data.report.stale_experiences ? "warn" : ""} />
        </div>
        ${data.registries.length === 0 && html`<${Panel} label="Registries"><${Empty} title="No tools registered yet">A host registers a snapshot of its tools: names and fingerprints, never schemas.<//><//>`}
        ${data.registries.map((registry) => html`
          <${Panel} key=${registry.registry_id} title=${registry.registry_id} flush aside=${html`<bdi>${registry.namespace}</bdi> <span class="id">${registry.fingerprint.slice(0, 12)}</span>`}>
            <${Table} label=${registry.registry_id} rows=${registry.tools} keyOf=${(tool) => tool.tool_id} columns=${[
              ["Tool", (tool) => html`<bdi>${tool.display_name || tool.tool_id}</bdi> ${tool.disabled && html`<${Badge}>off<//>`}`, "grow"],
              ["Version", (tool) => tool.version ?? ""],
              ["Permissions", (tool) => html`<bdi>${tool.permission_tags.join(", ")}</bdi>`],
              ["Risks", (tool) => html`<bdi>${tool.risk_tags.join(", ")}</bdi>`],
              ["Schema", (tool) => html`<span class="id">${tool.schema_fingerprint.slice(0, 12)}</span>`],
            ]} />
          <//>`)}`}
    <//>`;
}
