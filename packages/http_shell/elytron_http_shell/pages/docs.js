"use strict";
// Lists what /openapi/all.json describes and lets it be tried. Text goes in as text: nothing that is shown becomes markup.

const root = document.getElementById("operations");
const key = document.getElementById("key");
let serial = 0;

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
  if ("x-default" in schema) return schema["x-default"];
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

// The word for a schema's shape: "text", "list of Message", "one of a, b".
function shape(given, all) {
  if (given.$ref) {
    const kept = resolved(given, all);
    return kept.enum ? shape(kept, all) : given.$ref.split("/").pop();
  }
  if (given.enum) return given.enum.map((one) => JSON.stringify(one)).join(" | ");
  if ("const" in given) return JSON.stringify(given.const);
  const forms = given.anyOf || given.oneOf || given.allOf;
  if (forms) return [...new Set(forms.filter((one) => one.type !== "null").map((one) => shape(one, all)))].join(" | ");
  if (given.type === "array") return given.items ? `list of ${shape(given.items, all)}` : "list";
  return { string: "text", object: "object", integer: "integer", number: "number", boolean: "true | false" }[given.type] || "anything";
}

// The objects that a field may hold, for looking further into it.
function within(given, all) {
  const schema = resolved(given, all);
  if (schema.properties) return [schema];
  const forms = schema.anyOf || schema.oneOf || schema.allOf || (schema.items ? [schema.items] : []);
  return forms.flatMap((one) => within(one, all));
}

function bounds(schema) {
  const found = [];
  if ("x-default" in schema) found.push(`default ${JSON.stringify(schema["x-default"])}`);
  if ("minimum" in schema) found.push(`at least ${schema.minimum}`);
  if ("maximum" in schema) found.push(`at most ${schema.maximum}`);
  if ("maxLength" in schema) found.push(`at most ${schema.maxLength} characters`);
  if ("maxItems" in schema) found.push(`at most ${schema.maxItems}`);
  return found.join(", ");
}

function folded(title, make) {
  const details = made("details", {}, made("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(make());
  });
  return details;
}

function fields(schema, all) {
  const list = made("dl", { class: "schema" });
  const needed = new Set(schema.required || []);
  for (const [name, field] of Object.entries(schema.properties || {})) {
    const told = field.description || resolved(field, all).description || "";
    const term = made("dt", {}, name, made("span", { class: "type" }, `  ${shape(field, all)}`));
    if (needed.has(name)) term.append(made("span", { class: "needed" }, "  required"));
    list.append(term, made("dd", {}, [told, bounds(field)].filter(Boolean).join(" ")));
    for (const inner of within(field, all))
      list.append(made("dd", {}, folded(inner.title || "fields", () => fields(inner, all))));
  }
  if (!list.children.length) list.append(made("dd", {}, schema.description || shape(schema, all)));
  return list;
}

function shown(title, schema, all) {
  const found = within(schema, all);
  return folded(title, () => made("div", {}, ...(found.length ? found : [resolved(schema, all)]).map((one) => fields(one, all))));
}

function asked(parameters, inputs) {
  const box = made("div", { class: "fields" });
  for (const parameter of parameters) {
    const id = `input-${serial++}`;
    const input = made("input", { id, placeholder: parameter.in, title: parameter.description || "", autocomplete: "off" });
    box.append(made("label", { for: id }, parameter.name), input);
    inputs.push({ parameter, input });
  }
  return box;
}

function form(method, path, operation, all) {
  const box = made("div");
  const inputs = [];
  const places = (operation.parameters || []).filter((parameter) => parameter.in !== "header");
  const headers = (operation.parameters || []).filter((parameter) => parameter.in === "header");
  if (places.length) box.append(asked(places, inputs));
  const [type, content] = Object.entries((operation.requestBody || {}).content || {})[0] || [];
  let body = null;
  if (type === "application/json") {
    body = made("textarea", { spellcheck: "false", "aria-label": "request" });
    body.value = content.schema ? JSON.stringify("example" in content ? content.example : example(content.schema, all, 0), null, 2) : "{}";
    body.rows = Math.min(body.value.split("\n").length + 1, 16);
    box.append(body);
    if (content.schema) box.append(shown("Request", content.schema, all));
  } else if (type) {
    box.append(made("p", { class: "hint" }, `This operation takes ${type}: send it with a client.`));
  }
  const answer = Object.values((Object.entries(operation.responses).find(([code]) => code < "300") || [])[1]?.content || {})[0];
  if (answer && answer.schema) box.append(shown("Answer", answer.schema, all));
  if (headers.length) {
    const details = made("details", {}, made("summary", {}, "Headers"), asked(headers, inputs));
    details.open = headers.some((parameter) => parameter.required);
    box.append(details);
  }
  if (!type || body) {
    const out = made("div");
    const button = made("button", { type: "button" }, "Send");
    button.addEventListener("click", () => send(method.toUpperCase(), path, inputs, body, type, out, button));
    box.append(made("p", {}, button), out);
  }
  return box;
}

const MARKS = { operator: "operator", public: "no key", signed: "signed", credentials: "own credentials" };

function row(method, path, operation, all) {
  const mark = MARKS[operation["x-access"]];
  const summary = made("summary", {},
    made("span", { class: `method ${method}` }, method.toUpperCase()), made("span", { class: "path" }, path),
    made("span", { class: "about" }, operation.summary || ""), mark ? made("span", { class: "mark" }, mark) : "");
  const details = made("details", { class: "operation", "data-text": `${path} ${operation.summary}`.toLowerCase() }, summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(form(method, path, operation, all));
  });
  return details;
}

function section(name, rows) {
  const id = `group-${name.replace(/\W+/g, "-")}`;
  document.getElementById("groups").append(made("a", { href: `#${id}` }, name));
  return made("section", { id }, made("h2", {}, name), ...rows);
}

async function described() {
  const headers = key.value ? { Authorization: `Bearer ${key.value.trim()}` } : {};
  const answer = await fetch("/openapi/all.json", { headers });
  if (answer.ok) return answer.json();
  root.replaceChildren(made("p", { class: "status" }, "Enter an access key above to see its operations."));
  await new Promise((entered) => key.addEventListener("change", entered, { once: true }));
  return described();
}

async function start() {
  document.getElementById("ask").addEventListener("submit", (event) => event.preventDefault());
  const description = await described();
  const all = description.components.schemas;
  document.getElementById("about").textContent = `${description.info.summary} Version ${description.info.version}.`;
  const groups = new Map();
  for (const [path, methods] of Object.entries(description.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const name = (operation.tags || ["other"])[0];
      groups.set(name, [...(groups.get(name) || []), row(method, path, operation, all)]);
    }
  root.replaceChildren(...[...groups].map(([name, rows]) => section(name, rows)));
  document.getElementById("find").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const part of root.children) {
      for (const child of part.querySelectorAll(".operation")) child.hidden = !child.dataset.text.includes(wanted);
      part.hidden = !part.querySelector(".operation:not([hidden])");
    }
  });
}

start().catch((error) => root.replaceChildren(made("p", { class: "status wrong" }, String(error))));
