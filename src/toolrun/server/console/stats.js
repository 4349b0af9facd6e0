// @ts-check
/** Calls by outcome: sums, and a bar of shares. */
import { count } from "./format.js";
import { html } from "./lib.js";
import { State } from "./parts.js";

/** In the order in which they are drawn. */
export const OUTCOMES = ["ok", "cancelled", "refused", "failed", "timeout", "in_doubt"];
/** @param {string} outcome */
export const fill = (outcome) => ({ in_doubt: "in-doubt", cancelled: "refused" })[outcome] ?? outcome;

/** @typedef {{calls: number, repaired: number, outcomes: Record<string, number>}} Sums */

const total = (/** @type {number[] | undefined} */ numbers) => (numbers ?? []).reduce((sum, it) => sum + it, 0);

/** What a series has in all. @param {any} series @returns {Sums} */
export function sumsOf(series) {
  const outcomes = Object.fromEntries(OUTCOMES.map((name) => [name, total(series?.outcomes[name])]));
  return { calls: total(Object.values(outcomes)), repaired: total(series?.repaired), outcomes };
}

/** A bar of shares, with its figures. Repaired is no outcome: a thin line below says how many were. @param {{sums: Sums}} props */
export function Outcomes({ sums }) {
  const shares = Object.entries(sums.outcomes).filter(([, number]) => number > 0);
  if (!sums.calls) return null;
  let x = 0;
  const bars = shares.map(([name, number]) => {
    const width = (number / sums.calls) * 100;
    x += width;
    return html`<rect class="f-${fill(name)}" x=${x - width} y="0" width=${Math.max(width - 0.3, 0.2)} height="8" />`;
  });
  return html`<svg class="share" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">${bars}
      ${sums.repaired > 0 && html`<rect class="f-repaired" x="0" y="10" width=${Math.min(100, (sums.repaired / sums.calls) * 100)} height="2" />`}</svg>
    <div class="row wrap figures">${shares.map(([name, number]) => html`<${State} state=${name} word="${count(number)} ${name.replaceAll("_", " ")}" />`)}${
      sums.repaired > 0 && html`<${State} state="repaired" word="${count(sums.repaired)} repaired" />`
    }</div>`;
}
