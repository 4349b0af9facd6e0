// @ts-check
/** ⌘K: tools, pages and calls by a few letters. And the list of keys. */
import { html, signal, useEffect, useRef, useState } from "./lib.js";
import { HELP } from "./keys.js";
import { Icon } from "./parts.js";
import { go, href } from "./router.js";
import { effects, tools, waiting } from "./state.js";

/** @type {import("@preact/signals").Signal<"" | "search" | "help">} */
export const dialog = signal("");
const MAX = 12;
const CALL = /^\d+-\d+$/;

/** @typedef {{icon: string, text: unknown, note: string, address: string, match: string}} Entry */

/** @param {string} wanted @returns {Entry[]} */
function entries(wanted) {
  const text = wanted.trim().toLowerCase();
  /** @type {Entry[]} */
  const pages = [
    { icon: "tools", text: "Tools", note: "g t", address: "#/tools", match: "tools" },
    { icon: "try", text: "Try a tool", note: "g y", address: "#/try", match: "try a tool" },
    { icon: "calls", text: "Calls", note: "g c", address: "#/calls", match: "calls" },
    { icon: "failed", text: "Calls that failed", note: "", address: href("calls", "", { outcome: "failed" }), match: "calls that failed" },
    { icon: "effects", text: "Waiting for approval", note: String(waiting.value.length), address: "#/effects", match: "effects approvals waiting" },
    { icon: "in-doubt", text: "Effects in doubt", note: String(effects.value?.length ?? 0), address: "#/effects", match: "effects in doubt" },
    { icon: "chat", text: "Chat", note: "g h", address: "#/chat", match: "chat" },
    { icon: "health", text: "Health", note: "g a", address: "#/health", match: "health workers servers" },
  ];
  if (CALL.test(text)) return [{ icon: "calls", text: ["Call ", html`<code>${text}</code>`], note: "", address: href("calls", text), match: text }];
  const found = (tools.value ?? []).filter((tool) => tool.name.toLowerCase().includes(text)).slice(0, MAX);
  const ofTools = found.flatMap((tool) => [
    { icon: "tools", text: html`<code>${tool.name}</code>`, note: tool.source?.name ?? "", address: href("tools", tool.name), match: tool.name },
    { icon: "try", text: ["Try ", html`<code>${tool.name}</code>`], note: "", address: href("try", tool.name), match: tool.name },
    { icon: "calls", text: ["Calls of ", html`<code>${tool.name}</code>`], note: "", address: href("calls", "", { tool: tool.name }), match: tool.name },
  ]);
  const fitting = pages.filter((entry) => entry.match.includes(text));
  const search = text ? [{ icon: "find", text: ["Calls with ", html`<b>${wanted}</b>`], note: "", address: href("calls", "", { q: wanted.trim() }), match: "" }] : [];
  return [...(text ? [] : fitting), ...(found.length > 3 ? ofTools.filter((_, at) => at % 3 === 0) : ofTools), ...(text ? fitting : []), ...search].slice(0, MAX);
}

/** The dialog that is open, if one is. */
export function Dialogs() {
  if (dialog.value === "search") return html`<${Palette} />`;
  return dialog.value === "help" ? html`<${Help} />` : null;
}

/** Opens the dialog that gets it; the browser gives the focus back at the end. */
function useModal() {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    ref.current?.showModal();
  }, []);
  return ref;
}

const close = () => {
  dialog.value = "";
};

function Palette() {
  const ref = useModal();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const found = entries(text);
  const chosen = Math.min(at, found.length - 1);
  const open = (/** @type {Entry | undefined} */ entry) => {
    if (!entry) return;
    close();
    go(entry.address);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((chosen + step + found.length) % found.length);
    else if (event.key === "Enter") open(found[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<dialog class="k" ref=${ref} aria-label="Search" onClose=${close} onClick=${(/** @type {Event} */ event) => event.target === ref.current && close()}>
    <input placeholder="Search tools and calls" aria-label="Search tools and calls" role="combobox" aria-expanded="true" aria-controls="k-list"
      aria-activedescendant=${found.length ? `k-${chosen}` : undefined} value=${text} onKeyDown=${key} autocomplete="off" spellcheck=${false}
      onInput=${(/** @type {any} */ event) => {
        setText(event.target.value);
        setAt(0);
      }} />
    <ul id="k-list" role="listbox" aria-label="Results">${found.map(
      (entry, index) => html`<li key=${index} id="k-${index}" role="option" aria-selected=${index === chosen ? "true" : "false"} onClick=${() => open(entry)}>
        <${Icon} name=${entry.icon} /><span class="grow cut">${entry.text}</span><span class="dim">${entry.note}</span></li>`,
    )}</ul>
    ${!found.length && html`<p class="dim none">Nothing is called so.</p>`}
  </dialog>`;
}

function Help() {
  const ref = useModal();
  return html`<dialog class="k help-keys" ref=${ref} aria-labelledby="help-title" onClose=${close}>
    <div class="row"><h2 id="help-title">Keys</h2><button type="button" class="btn small quiet push" onClick=${close}>Close</button></div>
    <table class="bare"><tbody>${HELP.map(([keys = "", what = ""]) => html`<tr><td class="nowrap">${keys.split(" · ").map((key, at) => [at > 0 && " or ", html`<kbd>${key}</kbd>`])}</td><td>${what}</td></tr>`)}</tbody></table>
  </dialog>`;
}
