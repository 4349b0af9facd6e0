// @ts-check
/** The keyboard: what the page that is shown does with a key, before what the whole console does. No single key acts. */
import { useEffect, useRef } from "./lib.js";
import { go } from "./router.js";

/** @typedef {Record<string, (event: KeyboardEvent) => void>} Keys */

/** What the help lists. */
export const HELP = [
  ["⌘K · Ctrl K", "search and commands"],
  ["/", "filter of the page"],
  ["j · k", "next and previous row"],
  ["Enter", "open the row"],
  ["Esc", "close the drawer, then clear the filter"],
  ["⌘Enter · Ctrl Enter", "run, on the page Try"],
  ["r", "replay the call that is open; asks if the tool acts"],
  ["g then t y c e h a", "Tools, Try, Calls, Effects, Chat, Health"],
  ["?", "this list"],
];
/** @type {Record<string, string>} */
const PAGES = { t: "tools", y: "try", c: "calls", e: "effects", h: "chat", a: "health" };
/** How long after g the letter of a page is waited for. */
const PATIENCE = 1500;

/** @type {Keys[]} */
const stack = [];
let sawG = 0;

/** The keys of a part of the page, as long as it is shown. @param {Keys} keys */
export function useKeys(keys) {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    /** @type {Keys} */
    const layer = new Proxy({}, { get: (_, name) => current.current[String(name)] });
    stack.push(layer);
    return () => void stack.splice(stack.indexOf(layer), 1);
  }, []);
}

/** @param {KeyboardEvent} event */
function name(event) {
  return `${event.metaKey || event.ctrlKey ? "Mod+" : ""}${event.key.length === 1 ? event.key.toLowerCase() : event.key}`;
}

/** @param {KeyboardEvent} event */
function isTyping(event) {
  return event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
}

addEventListener("keydown", (event) => {
  const key = name(event);
  const isCommand = key.startsWith("Mod+") || key === "Escape";
  if (event.altKey || (isTyping(event) && !isCommand)) return;
  if (document.querySelector("dialog[open]") && key !== "Mod+k") return;
  if (performance.now() - sawG < PATIENCE && key in PAGES) {
    sawG = 0;
    event.preventDefault();
    go(`#/${PAGES[key]}`);
    return;
  }
  sawG = key === "g" ? performance.now() : 0;
  const found = stack.findLast((keys) => keys[key])?.[key];
  if (!found) return;
  if (key === "Enter" && event.target instanceof HTMLElement && event.target.matches("button, a, summary")) return;
  event.preventDefault();
  found(event);
});

/** Keys with which one moves through rows: the row that is chosen is `at`. @param {number} length @param {number} at @param {(at: number) => void} choose @returns {Keys} */
export function rowKeys(length, at, choose) {
  if (!length) return {};
  return { j: () => choose(Math.min(at + 1, length - 1)), k: () => choose(Math.max(at - 1, 0)) };
}

/** Puts the focus into the filter of the page. */
export function focusFilter() {
  const found = document.querySelector("[data-filter]");
  if (found instanceof HTMLInputElement) {
    found.focus();
    found.select();
  }
}
