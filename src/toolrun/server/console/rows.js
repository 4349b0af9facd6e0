// @ts-check
/** A call as the server tells it, as pages use it. Pure. */
import { seconds } from "./format.js";

/**
 * @typedef {object} CallRow
 * @property {string} id
 * @property {string} tool
 * @property {string} outcome one of the states of parts.js
 * @property {string} word what is said of it: the outcome, or why
 * @property {number} at seconds
 * @property {number | null} ms
 * @property {unknown} args
 * @property {number} repairs
 * @property {string} consumer
 * @property {any} raw
 */

/** @param {any} raw @returns {CallRow} */
export function readRow(raw) {
  const outcome = outcomeOf(raw);
  return {
    id: String(raw.id ?? raw.call ?? ""),
    tool: String(raw.tool ?? raw.tool_name ?? ""),
    outcome,
    word: wordOf(raw, outcome),
    at: seconds(raw.at ?? raw.started),
    ms: raw.took_ms ?? raw.ms ?? null,
    args: raw.arguments,
    repairs: Array.isArray(raw.repairs) ? raw.repairs.length : Number(raw.repairs ?? 0),
    consumer: String(raw.consumer ?? ""),
    raw,
  };
}

const KNOWN = new Set(["ok", "failed", "timeout", "refused", "in_doubt", "waiting", "running", "queued", "cancelled"]);

/** @param {any} raw */
function outcomeOf(raw) {
  const said = String(raw.outcome ?? raw.state ?? "");
  if (KNOWN.has(said)) return said;
  return { done: "ok", started: "running", abandoned: "in_doubt", host_lost: "in_doubt" }[said] ?? "failed";
}

/** @param {any} raw @param {string} outcome */
function wordOf(raw, outcome) {
  if (raw.settled_as) return `settled: ${{ done: "it happened", not_done: "it did not happen" }[/** @type {string} */ (raw.settled_as)] ?? String(raw.settled_as).replaceAll("_", " ")}`;
  return outcome === "in_doubt" ? "in doubt" : outcome;
}

/** Why a call has no result, in words. @type {Record<string, string>} */
export const KINDS = {
  unknown_tool: "there is no such tool",
  invalid_arguments: "the arguments did not fit",
  tool_error: "the tool says that it failed",
  timeout: "the deadline passed",
  cancelled: "somebody cancelled it",
  unavailable: "the tool could not be reached",
  overloaded: "too many calls ran",
  worker_lost: "the worker died",
  protocol: "the answer could not be read",
  in_doubt: "an earlier call with its key is in doubt",
  not_approved: "nobody approved it",
};
