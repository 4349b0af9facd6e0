// @ts-check
/** What every page is made of: states, badges, tabs, code, copying, empty places. */
import { duration, time, visible } from "./format.js";
import { html, useId, useState } from "./lib.js";

/** @param {{name: string, spin?: boolean}} props */
export const Icon = ({ name, spin = false }) =>
  html`<svg class=${spin ? "i spin" : "i"} aria-hidden="true"><use href=${`#i-${name}`} /></svg>`;

/** Icon, class and word of each state. A state is always an icon and a word. */
const STATES = {
  ok: ["ok", "ok", "ok"],
  failed: ["failed", "failed", "failed"],
  timeout: ["timeout", "timeout", "timeout"],
  refused: ["refused", "refused", "refused"],
  in_doubt: ["in-doubt", "in-doubt", "in doubt"],
  waiting: ["waiting", "waiting", "waiting"],
  running: ["running", "running", "running"],
  queued: ["waiting", "refused", "queued"],
  cancelled: ["cancelled", "refused", "cancelled"],
  repaired: ["repaired", "repaired", "repaired"],
};

/** @typedef {keyof typeof STATES} StateName */

/** @param {string} state @returns {readonly string[]} */
const look = (state) => STATES[/** @type {StateName} */ (state)] ?? ["info", "refused", state.replaceAll("_", " ")];

/** @param {{state: string, word?: string, hidden?: boolean}} props `hidden`: the word is for screen readers only */
export function State({ state, word, hidden = false }) {
  const [icon = "", kind = "", usual = ""] = look(state);
  return html`<span class="st st-${kind}"><${Icon} name=${icon} spin=${state === "running"} /><span class=${hidden ? "sr" : ""}>${word ?? usual}</span></span>`;
}

/** @param {{number: number | boolean, words?: boolean}} props `true`: it is not known how many */
export const Repairs = ({ number, words = false }) =>
  number === true
    ? html`<span class="badge repaired"><${Icon} name="repaired" /><span class="sr">repaired</span></span>`
    : number
    ? html`<span class="badge repaired"><${Icon} name="repaired" />${number}${
        words ? ` ${number === 1 ? "repair" : "repairs"}` : html`<span class="sr"> ${number === 1 ? "repair" : "repairs"}</span>`
      }</span>`
    : null;

/** @param {{ms: number | null | undefined}} props */
export function Took({ ms }) {
  const [figure, unit] = duration(ms);
  return html`<span class="nowrap">${figure}${unit && html`<span class="u">${unit}</span>`}</span>`;
}

/** @param {{at: number | null | undefined, exact?: boolean}} props */
export const Time = ({ at, exact = false }) => html`<time title=${time(at, { exact: true })}>${time(at, { exact })}</time>`;

/** @param {{kind?: string, icon?: string, children?: unknown}} props */
export const Note = ({ kind = "", icon = "info", children }) =>
  html`<div class="note ${kind}"><${Icon} name=${icon} /><div class="grow">${children}</div></div>`;

/** @param {{children?: unknown}} props */
export const Problem = ({ children }) => html`<div class="note failed" role="alert"><${Icon} name="failed" /><div class="grow">${children}</div></div>`;

/**
 * Tabs, as the keyboard and screen readers know them. Only the panel that is open is made.
 * @param {{label: string, tabs: {id: string, name: string, panel: () => unknown}[], first?: string}} props
 */
export function Tabs({ label, tabs, first }) {
  const [chosen, choose] = useState(first);
  const id = useId();
  const open = tabs.find((tab) => tab.id === chosen) ?? tabs[0];
  if (!open) return null;
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(open) + step + tabs.length) % tabs.length];
    if (!next) return;
    choose(next.id);
    document.getElementById(`${id}-${next.id}`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
      ${tabs.map(
        (tab) => html`<button
          key=${tab.id} type="button" role="tab" id="${id}-${tab.id}" aria-selected=${tab === open ? "true" : "false"}
          aria-controls=${tab === open ? `${id}-panel` : undefined} tabindex=${tab === open ? 0 : -1} onClick=${() => choose(tab.id)}>${tab.name}</button>`,
      )}
    </div>
    <div role="tabpanel" class="panel" id="${id}-panel" aria-labelledby="${id}-${open.id}">${open.panel()}</div>`;
}

/** Copies a text, and says so where it happened. @param {{text: string | (() => string), name?: string, small?: boolean, label?: string}} props */
export function Copy({ text, name = "Copy", small = true, label }) {
  const [said, say] = useState("");
  const copy = async () => {
    say((await copyText(typeof text === "string" ? text : text())) ? "Copied" : "Select it and press Ctrl C");
    setTimeout(() => say(""), 2000);
  };
  return html`<button type="button" class="btn ${small ? "small" : ""}" aria-label=${label} onClick=${copy}><${Icon} name=${said === "Copied" ? "ok" : "copy"} /><span aria-live="polite">${said || name}</span></button>`;
}

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyOldWay(text); // a page without https that is not on this machine has no clipboard
  }
}

/** @param {string} text */
function copyOldWay(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

/** @param {{title: string, children?: unknown}} props */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

/** What a page shows whose entries would come from the journal. */
export const NoJournal = () => html`<${Empty} title="Calls are not recorded"><p>The project has no toolrun.toml, or its journal is off or broken. Past calls, requests for approval and calls in doubt are kept in the journal; what runs now is shown without it.</p>
  <p class="dim"><code>[journal]</code> in toolrun.toml turns it on, and <a href="#/health">Health</a> has its state.</p><//>`;

/** A command that one can copy. @param {{text: string}} props */
export const Command = ({ text }) => html`<div class="code"><span>${text}</span><${Copy} text=${text} label="Copy: ${text}" /></div>`;

/** @param {{name: string, children?: unknown}} props */
export const Fact = ({ name, children }) => html`<span><b>${name}</b>${children}</span>`;

const SHOWN = 20_000;

/**
 * A text that a machine gave: as text, with everything in it that is not seen made visible, and as much of it as a page can bear.
 * @param {{text: string, label?: string}} props
 */
export function Text({ text, label = "Text" }) {
  const [limit, setLimit] = useState(SHOWN);
  const rest = text.length - limit;
  return html`<pre class="code fold" tabindex="0" role="region" aria-label=${label}>${visible(rest > 0 ? text.slice(0, limit) : text)}</pre>
    ${
      rest > 0 &&
      html`<div class="row wrap"><span class="dim">${rest.toLocaleString("en-GB")} more characters.</span>
        <button type="button" class="btn small" onClick=${() => setLimit(limit * 10)}>Show more</button>
        <${Copy} text=${text} name="Copy all" /><${Download} text=${text} /></div>`
    }`;
}

/** @param {{text: string, name?: string}} props */
export function Download({ text, name = "result.txt" }) {
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return html`<button type="button" class="btn small" onClick=${save}>Save as a file</button>`;
}

