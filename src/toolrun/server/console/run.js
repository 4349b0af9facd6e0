// @ts-check
/** The calls that were made from this window: how they go, and what they gave. */
import { ApiError, events, post, words } from "./api.js";
import { parseJson } from "./exact_json.js";
import { cut, inline, durationText, size } from "./format.js";
import { Json, Tree } from "./json_view.js";
import { batch, html, signal, useEffect, useState } from "./lib.js";
import { Icon, Problem, Repairs, State, Tabs, Text, Time, Took } from "./parts.js";
import { href } from "./router.js";
import { KINDS } from "./rows.js";

/**
 * @typedef {object} RunState
 * @property {number} number
 * @property {string} tool
 * @property {any} args
 * @property {{timeout: number | null, key: string | null}} options
 * @property {number} began milliseconds
 * @property {string} id of the call, once it is known
 * @property {any} progress
 * @property {string[]} logs
 * @property {any} result the envelope
 * @property {string} problem
 * @property {boolean} isCancelling
 */

const MAX_RUNS = 20;
const MAX_LOGS = 200;

/** The newest first. @type {import("@preact/signals").Signal<RunState[]>} */
export const runs = signal([]);
let last = 0;

/** @param {number} number @param {Partial<RunState>} change */
function update(number, change) {
  runs.value = runs.value.map((run) => (run.number === number ? { ...run, ...change } : run));
}

/** Make a call. @param {string} tool @param {any} args @param {{timeout: number | null, key: string | null}} options */
export async function start(tool, args, options) {
  last += 1;
  const number = last;
  const run = { number, tool, args, options, began: Date.now(), id: "", progress: null, logs: [], result: null, problem: "", isCancelling: false };
  runs.value = [run, ...runs.value].slice(0, MAX_RUNS);
  const json = { arguments: args, ...(options.timeout ? { timeout: options.timeout } : {}), ...(options.key ? { key: options.key } : {}) };
  try {
    for await (const { event, data } of events(`/api/tools/${encodeURIComponent(tool)}/call`, { json })) batch(() => follow(number, event, data));
    const found = runs.value.find((it) => it.number === number);
    if (found && !found.result && !found.problem) update(number, { problem: "The server ended the answer before the call had one. The page Calls shows what became of it." });
  } catch (error) {
    update(number, { problem: error instanceof ApiError ? error.message : `The answer was lost: ${words(error)}. The page Calls shows what became of the call.` });
  }
}

/** @param {number} number @param {string} event @param {any} data */
function follow(number, event, data) {
  if (event === "started") update(number, { id: String(data.call ?? data.id ?? "") });
  if (event === "progress") update(number, { progress: data });
  if (event === "result") update(number, { result: data.envelope ?? data });
  if (event === "error") update(number, { problem: data.error ?? words(data) });
  if (event === "log") {
    const run = runs.value.find((it) => it.number === number);
    update(number, { logs: [...(run?.logs ?? []), `+${durationText(data.after_us / 1000)}  ${data.text}`].slice(-MAX_LOGS) });
  }
}

/** @param {{run: RunState}} props */
export function Run({ run }) {
  const { result } = run;
  const args = typeof run.args === "string" ? run.args : inline(run.args);
  if (!result && !run.problem) return html`<${Running} run=${run} args=${args} />`;
  const state = run.problem ? "failed" : outcome(result);
  const id = result?.recorded_as;
  return html`<section class="card" aria-label="Result of ${run.tool}"><header>
      <${State} state=${state} /><code>${run.tool}</code>${result && html`<${Repairs} number=${(result.repairs ?? []).length} words=${true} />`}<span class="dim"><${Time} at=${run.began / 1000} /></span><code class="dim cut grow">${cut(args, 200)}</code>
      <span class="push row">${result && html`<${Took} ms=${result.execution_time_ms} />`}${id && html`<a href=${href("calls", id)}>${id}</a>`}<button type="button" class="btn small" onClick=${() => start(run.tool, run.args, run.options)}><${Icon} name="again" />Run again</button></span></header>
    ${run.problem ? html`<div class="body"><${Problem}>${run.problem}<//></div>` : html`<${Result} result=${result} />`}
    ${run.logs.length > 0 && html`<div class="body"><h3>Log</h3><pre class="code fold" tabindex="0" role="region" aria-label="Log">${run.logs.join("\n")}</pre></div>`}
  </section>`;
}

/** @param {any} envelope */
function outcome(envelope) {
  if (envelope.success) return "ok";
  if (envelope.error_kind === "timeout" || envelope.error_kind === "cancelled") return envelope.error_kind;
  return ["unknown_tool", "invalid_arguments", "not_approved", "overloaded"].includes(envelope.error_kind) ? "refused" : "failed";
}

/** @param {{run: RunState, args: string}} props */
function Running({ run, args }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, []);
  const { progress } = run;
  const cancel = async () => {
    update(run.number, { isCancelling: true });
    await post(`/api/calls/${encodeURIComponent(run.id)}/cancel`, {}).catch((error) => update(run.number, { isCancelling: false, logs: [...run.logs, words(error)] }));
  };
  const done = progress?.progress;
  const total = progress?.total;
  return html`<section class="card" aria-label="Running call of ${run.tool}"><header>
    <${State} state="running" /><code>${run.tool}</code><code class="dim cut grow">${cut(args, 200)}</code>
    <span class="push row">${progress && html`<span class="soft cut">${[total ? `${done} of ${total}` : done, progress.message].filter((it) => it !== undefined && it !== null && it !== "").join(": ")}</span>`}
      ${total && html`<progress class="bar mini" value=${done} max=${total} aria-label="Progress"></progress>`}
      <span class="nowrap">${durationText(now - run.began)}${run.options.timeout && html`<span class="u">of ${run.options.timeout} s</span>`}</span>
      <button type="button" class="btn small" disabled=${!run.id || run.isCancelling} onClick=${cancel}>${run.isCancelling ? "Cancelling" : "Cancel"}</button></span></header>
    ${run.logs.length > 0 && html`<div class="body"><pre class="code fold" tabindex="0" role="region" aria-label="Log">${run.logs.join("\n")}</pre></div>`}</section>`;
}

/** @param {{result: any}} props */
function Result({ result }) {
  return html`<div class="result"><div><${Answer} value=${result.result} error=${result.error} />${!result.success && html`<${Why} result=${result} />`}</div>
    <div><h3>Envelope</h3><${Envelope} result=${result} /></div></div>`;
}

/** @param {{result: any}} props */
function Envelope({ result }) {
  const { text: _, ...envelope } = result; // what a model reads is one of the tabs
  return html`<${Json} value=${envelope} label="Envelope" />`;
}

/** @param {{result: any}} props */
function Why({ result }) {
  /** @type {Record<string, string>} */
  const effects = { not_started: "The tool has not acted.", failed: "The tool says that nothing happened.", unknown: "It is not known whether the tool has acted.", done: "The tool has acted; only its answer is missing." };
  return html`<dl class="meta"><dt>Why</dt><dd>${KINDS[result.error_kind] ?? result.error_kind}</dd>${result.side_effects && html`<dt>Side effects</dt><dd>${effects[result.side_effects] ?? result.side_effects}</dd>`}</dl>`;
}

/**
 * What a tool returned: as text, as a tree, as an image. Never as markup.
 * @param {{value: any, error?: string | null}} props
 */
export function Answer({ value, error = null }) {
  if (error) return html`<div class="note failed"><${Icon} name="failed" /><div class="grow"><${Text} text=${error} label="Error" /></div></div>`;
  const found = images(value);
  const text = typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value, null, 2);
  const data = structure(value);
  const tabs = [
    { id: "text", name: "Text", panel: () => (text ? html`<${Text} text=${text} label="Result as text" />` : html`<p class="dim">The tool returned nothing.</p>`) },
    ...(data === undefined ? [] : [{ id: "json", name: "JSON", panel: () => html`<div class="code tree"><${Tree} value=${data} /></div>` }]),
    ...(found.length ? [{ id: "image", name: found.length > 1 ? "Images" : "Image", panel: () => found.map((source, at) => html`<img class="shot" key=${at} src=${source} alt="Image ${at + 1} that the tool returned" />`) }] : []),
  ];
  const [only] = tabs;
  if (tabs.length === 1 && only) return html`<div class="sect">${only.panel()}</div>`;
  return html`<${Tabs} label="Result" tabs=${tabs} first=${found.length ? "image" : "text"} />${text.length > 20_000 && html`<p class="dim">${size(text.length)} in all</p>`}`;
}

/** What can be shown as a tree: data, and text that is JSON of something. @param {any} value */
function structure(value) {
  if (value !== null && typeof value === "object") return value;
  if (typeof value !== "string" || value.length > 2_000_000 || !/^\s*[[{]/.test(value)) return undefined;
  try {
    return parseJson(value);
  } catch {
    return undefined;
  }
}

const IMAGE = /^image\/(png|jpeg|gif|webp|avif)$/;

/** Images that a result has, as addresses that hold them. An SVG is none: it can have scripts. @param {any} value */
export function images(value) {
  const blocks = Array.isArray(value) ? value : [value];
  const found = blocks.filter((it) => it && typeof it === "object" && it.type === "image" && typeof it.data === "string" && IMAGE.test(it.mimeType ?? it.mime_type ?? ""));
  return [...new Set(found.map((it) => `data:${it.mimeType ?? it.mime_type};base64,${it.data}`))];
}
