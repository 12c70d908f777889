// Lists the operations of /openapi.json. Everything is put into text nodes, nothing is loaded from other hosts.

export {};

const METHODS = ["get", "post", "put", "patch", "delete"];

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** A paragraph; what stands in backticks is code. */
function paragraph(text) {
  const made = document.createElement("p");
  made.append(...text.split("`").map((part, at) => (at % 2 ? element("code", part) : part)));
  return made;
}

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.filter((each) => each.type !== "null").map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.join(", ");
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  return schema.format ? `${schema.type} (${schema.format})` : schema.type ?? "";
}

function parametersOf(operation) {
  const table = document.createElement("table");
  for (const { name, in: place, required, schema, description } of operation.parameters) {
    const row = document.createElement("tr");
    const fallback = schema?.default == null ? "" : `, default ${JSON.stringify(schema.default)}`;
    row.append(
      element("td", name, "name"),
      element("td", `${place}, ${typeOf(schema)}${required ? ", required" : fallback}`),
      element("td", description ?? "", "what"),
    );
    table.append(row);
  }
  return table;
}

function shown(path, method, operation) {
  const section = document.createElement("section");
  const scope = operation["x-tracereel-scope"];
  section.append(element("h2", `${method.toUpperCase()} ${path}`, "operation"));
  const said = operation.description ?? operation.summary;
  if (said) section.append(paragraph(said));
  if (scope) section.append(element("p", scope === "public" ? "No key is needed." : `Scope: ${scope}`, "quiet"));
  if (operation.parameters?.length) section.append(parametersOf(operation));
  const bodies = Object.keys(operation.requestBody?.content ?? {});
  if (bodies.length) section.append(element("p", `Body: ${bodies.join(", ")}`, "quiet"));
  const answers = Object.entries(operation.responses ?? {});
  section.append(element("p", `Answers: ${answers.map(([code]) => code).join(", ")}`, "quiet"));
  return section;
}

try {
  const answer = await fetch("/openapi.json");
  const { paths } = await answer.json();
  const sections = Object.entries(paths).flatMap(([path, operations]) =>
    METHODS.filter((method) => operations[method]).map((method) => shown(path, method, operations[method])));
  document.getElementById("operations").replaceChildren(...sections);
} catch (error) {
  document.getElementById("message").textContent = `The document cannot be read: ${error.message}`;
}
