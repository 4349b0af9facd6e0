// @ts-check
/** A call as the server tells it, as pages use it. Pure. */
import { seconds } from "./format.js";

/**
 * @typedef {object} CallRow
 * @property {string} id
 * @property {string} tool
 * @property {string} outcome one of the states of parts.js
 * @property {string} word what is said of it: the outcome, or how it was settled
 * @property {number} at seconds
 * @property {number | null} ms until its answer
 * @property {unknown} args in a list the beginning of their text
 * @property {boolean} repaired
 * @property {string} consumer
 * @property {any} raw
 */

/** @type {Record<string, string>} */
const SETTLED = { done: "settled: it happened", not_done: "settled: it did not happen" };

/** @param {any} raw @returns {CallRow} */
export function readRow(raw) {
  const settled = raw.settled_as ?? raw.settlement?.settled_as;
  return {
    id: raw.id,
    tool: raw.tool,
    outcome: raw.outcome,
    word: settled ? (SETTLED[settled] ?? `settled: ${settled}`) : raw.outcome.replace("_", " "),
    at: seconds(raw.at),
    ms: raw.run_us === null || raw.run_us === undefined ? null : ((raw.queued_us ?? 0) + raw.run_us) / 1000,
    args: raw.arguments,
    repaired: Boolean(raw.repaired ?? raw.repairs?.length),
    consumer: raw.consumer ?? "",
    raw,
  };
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
