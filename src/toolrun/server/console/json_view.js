// @ts-check
/** JSON as people read it: coloured text for small values, a tree that opens for large ones. */
import { inline, plural, visible } from "./format.js";
import { html, useState } from "./lib.js";
import { Text } from "./parts.js";

const MAX_CODE = 20_000;
const MAX_WIDTH = 72;
const MAX_STRING = 2_000;
const PAGE = 100;

/** JSON in full, with two spaces; too long for colours, it is plain text. @param {{value: unknown, label?: string}} props */
export function Json({ value, label = "JSON" }) {
  const text = JSON.stringify(value, null, 2) ?? "null";
  if (text.length > MAX_CODE) return html`<${Text} text=${text} label=${label} />`;
  return html`<pre class="code fold" tabindex="0" role="region" aria-label=${label}>${pieces(value, "")}</pre>`;
}

/** @param {unknown} value @param {string} indent @returns {unknown} */
function pieces(value, indent) {
  if (value === null || typeof value !== "object") return scalar(value);
  const entries = Array.isArray(value) ? value.map((part) => /** @type {const} */ ([null, part])) : Object.entries(value);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return html`<span class="p">${open}${close}</span>`;
  const isShort = entries.every(([, part]) => part === null || typeof part !== "object") && inline(value).length + indent.length <= MAX_WIDTH;
  const inner = isShort ? "" : `${indent}  `;
  const lines = entries.map(([name, part], at) => [
    isShort ? "" : `\n${inner}`,
    name !== null && [html`<span class="k">${visible(JSON.stringify(name))}</span>`, html`<span class="p">: </span>`],
    pieces(part, inner),
    at < entries.length - 1 && html`<span class="p">${isShort ? ", " : ","}</span>`,
  ]);
  return [html`<span class="p">${open}</span>`, lines, isShort ? "" : `\n${indent}`, html`<span class="p">${close}</span>`];
}

/** @param {unknown} value */
function scalar(value) {
  const kind = typeof value === "string" ? "s" : "n";
  return html`<span class=${kind}>${visible(JSON.stringify(value) ?? "null")}</span>`;
}

/** A value as a tree; what is large is opened on request. @param {{value: unknown, name?: string | number, depth?: number}} props */
export function Tree({ value, name, depth = 0 }) {
  const label = name === undefined ? null : html`<span class="k">${visible(String(name))}</span>`;
  if (value === null || typeof value !== "object") {
    return html`<div class="leaf">${label}${label && html`<span class="p">: </span>`}<${Leaf} value=${value} /></div>`;
  }
  return html`<${Branch} value=${value} label=${label} depth=${depth} />`;
}

/** @param {{value: unknown}} props */
function Leaf({ value }) {
  const [open, setOpen] = useState(false);
  if (typeof value !== "string" || value.length <= MAX_STRING || open) return scalar(value);
  return html`${scalar(value.slice(0, MAX_STRING))}<button type="button" class="btn small quiet" onClick=${() => setOpen(true)}>${plural(value.length - MAX_STRING, "more character")}</button>`;
}

/** @param {{value: object, label: unknown, depth: number}} props */
function Branch({ value, label, depth }) {
  const entries = Object.entries(value);
  const [open, setOpen] = useState(depth < 2 && entries.length <= 20);
  const [limit, setLimit] = useState(PAGE);
  const about = Array.isArray(value) ? `[${plural(entries.length, "value")}]` : `{${plural(entries.length, "key")}}`;
  /** @param {Event} event */
  const toggled = (event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open);
  return html`<details class="branch" open=${open} onToggle=${toggled}>
    <summary>${label}${label && " "}<span class="dim">${about}</span></summary>
    ${open && entries.slice(0, limit).map(([name, part]) => html`<${Tree} key=${name} value=${part} name=${name} depth=${depth + 1} />`)}
    ${open && entries.length > limit && html`<button type="button" class="btn small" onClick=${() => setLimit(limit * 10)}>${plural(entries.length - limit, "more")}</button>`}
  </details>`;
}
