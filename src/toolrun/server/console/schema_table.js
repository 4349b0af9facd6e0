// @ts-check
/** The parameters of a tool as a table: nested ones under the one that holds them. */
import { html } from "./lib.js";
import { rows } from "./schema_words.js";

/** @param {{schema: import("./types.js").Schema, label?: string}} props */
export function SchemaTable({ schema, label = "Parameters" }) {
  const found = rows(schema);
  if (!found.length) return html`<p class="dim">None.</p>`;
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label=${label}><table class="tall bare params" role="table">
    <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Name</th><th role="columnheader" scope="col">Type</th><th role="columnheader" scope="col">Meaning</th></tr></thead>
    <tbody role="rowgroup">${found.map(
      (row) => html`<tr role="row" key=${row.path}>
        <td role="cell" class="in-${Math.min(row.depth, 6)}"><code>${row.name}</code>${
          row.required !== null && html`<div class="dim">${row.required ? "required" : row.standard === null ? "optional" : html`else <code>${row.standard}</code>`}</div>`
        }</td>
        <td role="cell">${row.type}${row.limits.length > 0 && html`<br /><span class="dim">${row.limits.join(", ")}</span>`}</td>
        <td role="cell" class="prose">${row.meaning || html`<span class="dim">–</span>`}</td>
      </tr>`,
    )}</tbody>
  </table></div>`;
}
