// @ts-check
/** What several pages show: the tools, what runs, what waits for a person, the health. Read once, and again when events say so. */
import { get } from "./api.js";
import { coalesced } from "./coalesce.js";
import { computed, signal } from "./lib.js";
import { on, onResume } from "./live.js";

/** @typedef {import("./types.js").Tool} Tool */
/** @typedef {import("./types.js").Health} Health */

/** @type {import("@preact/signals").Signal<Tool[] | null>} */
export const tools = signal(null);
/** Why tools are missing, in words. @type {import("@preact/signals").Signal<string[]>} */
export const missing = signal([]);
/** @type {import("@preact/signals").Signal<Health | null>} */
export const health = signal(null);
/** The calls that run in the server, the oldest first. Their ids are not those of the journal. @type {import("@preact/signals").Signal<any[]>} */
export const running = signal([]);
/** @type {import("@preact/signals").Signal<any[] | null>} */
export const effects = signal(null);
/** @type {import("@preact/signals").Signal<any[] | null>} */
export const approvals = signal(null);
/** @type {import("@preact/signals").Signal<any[] | null>} */
export const held = signal(null);

/** Whether there is a journal to read. */
export const isRecorded = computed(() => health.value === null || health.value.journal.path !== null);
/** Requests that wait for an answer: an answer that can still be used is in the list too. */
export const waiting = computed(() => (approvals.value ?? []).filter((it) => it.state === "pending"));
/** What a person has to settle. */
export const open = computed(() => waiting.value.length + (effects.value ?? []).length + (held.value ?? []).length);

/** A list that is read again when it has changed. @param {() => Promise<void>} read @param {number} [pause] milliseconds between two */
const source = (read, pause = 400) => coalesced(read, { pause }).ask;

export const refreshTools = source(async () => {
  const found = await get("/api/tools");
  tools.value = found.tools;
  missing.value = found.problems ?? [];
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
  held.value = (await get("/api/trust")).changes;
});
export const refreshRunning = source(async () => {
  running.value = (await get("/api/running")).calls;
}, 500);

function refreshAll() {
  for (const refresh of [refreshTools, refreshHealth, refreshRunning, refreshEffects, refreshApprovals, refreshHeld]) refresh();
}

/** Read what is there, and follow what happens. */
export function follow() {
  onResume(refreshAll);
  on("call", refreshRunning);
  on("tools", refreshTools);
  on("trust", refreshHeld);
  on("trust", refreshTools);
  on("health", refreshHealth);
  on("effects", refreshEffects);
  on("approval", refreshApprovals);
}
