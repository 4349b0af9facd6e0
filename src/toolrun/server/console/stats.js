// @ts-check
/** The figures of a tool: calls by outcome, percentiles. */
import { count } from "./format.js";
import { html } from "./lib.js";
import { State } from "./parts.js";

/** In the order in which they are drawn. */
export const OUTCOMES = ["ok", "refused", "failed", "timeout", "in_doubt", "cancelled"];
/** @param {string} outcome */
export const fill = (outcome) => ({ in_doubt: "in-doubt", cancelled: "refused" })[outcome] ?? outcome;

/** @typedef {{calls: number, p50: number | null, p95: number | null, p99: number | null, repaired: number, outcomes: Record<string, number>}} Stats */

/** @param {any} raw @returns {Stats} */
export function readStats(raw) {
  /** @type {Record<string, number>} */
  const outcomes = Object.fromEntries(OUTCOMES.map((name) => [name, 0]));
  for (const [name, number] of Object.entries(raw.outcomes ?? {})) {
    const known = OUTCOMES.includes(name) ? name : ({ done: "ok", running: "" }[name] ?? "failed");
    if (known) outcomes[known] = (outcomes[known] ?? 0) + Number(number);
  }
  return { calls: raw.calls ?? 0, p50: raw.p50_ms ?? null, p95: raw.p95_ms ?? null, p99: raw.p99_ms ?? null, repaired: raw.repaired ?? 0, outcomes };
}

/** A bar of shares, with its figures. Repaired is no outcome: a thin line below says how many were. @param {{stats: Stats}} props */
export function Outcomes({ stats }) {
  const shares = Object.entries(stats.outcomes).filter(([, number]) => number > 0);
  const total = shares.reduce((sum, [, number]) => sum + number, 0);
  if (!total) return null;
  let x = 0;
  const bars = shares.map(([name, number]) => {
    const width = (number / total) * 100;
    x += width;
    return html`<rect class="f-${fill(name)}" x=${x - width} y="0" width=${Math.max(width - 0.3, 0.2)} height="8" />`;
  });
  return html`<svg class="share" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">${bars}
      ${stats.repaired > 0 && html`<rect class="f-repaired" x="0" y="10" width=${Math.min(100, (stats.repaired / total) * 100)} height="2" />`}</svg>
    <div class="row wrap figures">${shares.map(([name, number]) => html`<${State} state=${name} word="${count(number)} ${name.replaceAll("_", " ")}" />`)}${
      stats.repaired > 0 && html`<${State} state="repaired" word="${count(stats.repaired)} repaired" />`
    }</div>`;
}
