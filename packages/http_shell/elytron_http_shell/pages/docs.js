"use strict";
// Lists what /openapi.json describes and lets it be tried. Text goes in as text: nothing that is shown becomes markup.

const root = document.getElementById("operations");
const key = document.getElementById("key");

function made(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function resolved(schema, all) {
  return schema && schema.$ref ? all[schema.$ref.split("/").pop()] || {} : schema || {};
}

// A value of the schema's shape: required fields, the first of several forms, defaults where there are some.
function example(given, all, depth) {
  const schema = resolved(given, all);
  if (depth > 6) return null;
  if ("default" in schema) return schema.default;
  if ("const" in schema) return schema.const;
  if (schema.enum) return schema.enum[0];
  const forms = schema.anyOf || schema.oneOf || schema.allOf;
  if (forms) return example(forms[0], all, depth + 1);
  switch (schema.type) {
    case "object": {
      const found = {};
      const required = new Set(schema.required || []);
      for (const [name, field] of Object.entries(schema.properties || {}))
        if (required.has(name) || name === "kind") found[name] = example(field, all, depth + 1);
      return found;
    }
    case "array": return schema.minItems ? [example(schema.items, all, depth + 1)] : [];
    case "integer": case "number": return schema.minimum || 0;
    case "boolean": return false;
    case "string": return "text";
    default: return null;
  }
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

async function send(method, path, inputs, body, type, out, button) {
  button.disabled = true;
  let address = path;
  const query = new URLSearchParams();
  const headers = {};
  for (const { parameter, input } of inputs) {
    if (!input.value) continue;
    if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    if (parameter.in === "query") query.set(parameter.name, input.value);
    if (parameter.in === "header") headers[parameter.name] = input.value;
  }
  if (key.value) headers.Authorization = `Bearer ${key.value.trim()}`;
  if (type) headers["Content-Type"] = type;
  const started = performance.now();
  try {
    const target = query.size ? `${address}?${query}` : address;
    const answer = await fetch(target, { method, headers, body: body ? body.value : undefined });
    const took = Math.round(performance.now() - started);
    const kind = answer.headers.get("content-type") || "";
    const text = /json|text/.test(kind) ? await answer.text() : `${(await answer.blob()).size} bytes of ${kind}`;
    const line = `${answer.status} ${answer.statusText}, ${took} ms, request ${answer.headers.get("x-request-id")}`;
    out.replaceChildren(
      made("p", { class: `status ${answer.ok ? "right" : "wrong"}` }, line), made("pre", {}, pretty(text)));
  } catch (error) {
    out.replaceChildren(made("p", { class: "status wrong" }, String(error)));
  } finally {
    button.disabled = false;
  }
}

function form(method, path, operation, all) {
  const box = made("div");
  const inputs = (operation.parameters || []).map((parameter) => {
    const input = made("input", { placeholder: parameter.in, "aria-label": parameter.name, autocomplete: "off" });
    box.append(made("label", {}, `${parameter.name} `, input));
    return { parameter, input };
  });
  const [type, content] = Object.entries((operation.requestBody || {}).content || {})[0] || [];
  let body = null;
  if (type === "application/json") {
    body = made("textarea", { spellcheck: "false", "aria-label": "request" });
    body.value = JSON.stringify(example(content.schema, all, 0), null, 2);
    box.append(body, made("details", {}, made("summary", {}, "Schema of the request"),
      made("pre", {}, JSON.stringify(resolved(content.schema, all), null, 2))));
  } else if (type) {
    box.append(made("p", { class: "hint" }, `Takes ${type}: send it with a client.`));
  }
  const answer = Object.values(operation.responses["200"].content || {})[0];
  if (answer && answer.schema)
    box.append(made("details", {}, made("summary", {}, "Schema of the answer"),
      made("pre", {}, JSON.stringify(resolved(answer.schema, all), null, 2))));
  if (!type || body) {
    const out = made("div");
    const button = made("button", { type: "button" }, "Send");
    button.addEventListener("click", () => send(method.toUpperCase(), path, inputs, body, type, out, button));
    box.append(made("p", {}, button), out);
  }
  return box;
}

function row(method, path, operation, all) {
  const summary = made("summary", {},
    made("span", { class: "method" }, method.toUpperCase()), made("span", { class: "path" }, path),
    made("span", { class: "about" }, operation.summary || ""));
  const details = made("details", { class: "operation", "data-text": `${path} ${operation.summary}`.toLowerCase() }, summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(form(method, path, operation, all));
  });
  return details;
}

async function start() {
  const description = await (await fetch("/openapi.json")).json();
  const all = description.components.schemas;
  document.getElementById("about").textContent = `${description.info.summary} Version ${description.info.version}.`;
  root.replaceChildren(...Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => row(method, path, operation, all))));
  document.getElementById("find").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const child of root.children) child.hidden = !child.dataset.text.includes(wanted);
  });
}

start().catch((error) => root.replaceChildren(made("p", { class: "status wrong" }, String(error))));
