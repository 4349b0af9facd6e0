// @ts-check
/** What several pages show: the tools, what runs, what waits for a person, the health. Read once, and again when events say so. */
import { get } from "./api.js";
import { computed, signal } from "./lib.js";
import { on, onResume } from "./live.js";
import { readRow } from "./rows.js";

/** @typedef {import("./types.js").Tool} Tool */
/** @typedef {import("./types.js").Health} Health */
/** @typedef {import("./rows.js").CallRow} CallRow */

/** @type {import("@preact/signals").Signal<Tool[] | null>} */
export const tools = signal(null);
/** @type {import("@preact/signals").Signal<Health | null>} */
export const health = signal(null);
/** @type {import("@preact/signals").Signal<Map<string, CallRow>>} */
export const running = signal(new Map());
/** @type {import("@preact/signals").Signal<any[] | null>} */
export const effects = signal(null);
/** @type {import("@preact/signals").Signal<any[] | null>} */
export const approvals = signal(null);
/** @type {import("@preact/signals").Signal<any[] | null>} */
export const held = signal(null);

/** Requests that wait for an answer: an answer that can still be used is in the list too. */
export const waiting = computed(() => (approvals.value ?? []).filter((it) => it.state === "pending"));
/** What a person has to settle. */
export const open = computed(() => waiting.value.length + (effects.value ?? []).length + (held.value ?? []).length);

/**
 * A list that is read again when it has changed, at most once in a while, and never twice at the same time.
 * @param {() => Promise<void>} read @param {number} [least] milliseconds between two
 */
function source(read, least = 400) {
  let timer = 0;
  let last = 0;
  const now = async () => {
    timer = 0;
    last = Date.now();
    await read().catch(() => undefined); // the connection says what is wrong
  };
  return () => {
    if (!timer) timer = setTimeout(now, Math.max(0, last + least - Date.now()));
  };
}

export const refreshTools = source(async () => {
  tools.value = (await get("/api/tools")).tools;
}, 3000);
export const refreshHealth = source(async () => {
  health.value = await get("/api/health");
}, 1000);
export const refreshEffects = source(async () => {
  effects.value = (await get("/api/effects")).effects;
});
export const refreshApprovals = source(async () => {
  approvals.value = (await get("/api/approvals")).approvals;
});
export const refreshHeld = source(async () => {
  held.value = readHeld(await get("/api/trust"));
});
const refreshRunning = source(async () => {
  const rows = (await get("/api/running")).calls.map(readRow);
  running.value = new Map(rows.map((/** @type {CallRow} */ row) => [row.id, row]));
}, 1000);

/** @param {any} answer */
const readHeld = (answer) => answer.definitions ?? answer.changed ?? answer.held ?? [];

/** @param {any} raw */
function call(raw) {
  const row = readRow(raw);
  const next = new Map(running.value);
  if (row.outcome === "running" || row.outcome === "queued") next.set(row.id, row);
  else if (!next.delete(row.id)) return;
  running.value = next;
}

function refreshAll() {
  for (const refresh of [refreshTools, refreshHealth, refreshRunning, refreshEffects, refreshApprovals, refreshHeld]) refresh();
}

/** Read what is there, and follow what happens. */
export function follow() {
  onResume(refreshAll);
  on("call", call);
  on("tools", refreshTools);
  on("tools", refreshHeld);
  on("health", refreshHealth);
  on("effects", refreshEffects);
  on("approval", refreshApprovals);
}
