// @ts-check
/** Above the list of calls: how many had which outcome, and when. */
import { get } from "./api.js";
import { coalesced } from "./coalesce.js";
import { count } from "./format.js";
import { html, useEffect, useState } from "./lib.js";
import { on, onReturn } from "./live.js";
import { State } from "./parts.js";
import { running } from "./state.js";
import { fill, OUTCOMES, sumsOf } from "./stats.js";

const BARS = 60;
const HEIGHT = 30;
const AGAIN = 5000;

/** @param {{filters: Record<string, string>, choose: (outcome: string) => void, outcomes: string[]}} props */
export function Bars({ filters, choose, outcomes }) {
  const hours = Number(filters.hours) || 24;
  const [series, setSeries] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    const read = () => get("/api/series", { tool: filters.tool, since: `${hours}h`, step: (hours * 3600) / BARS }, stop.signal).then(setSeries);
    const again = coalesced(read, { pause: AGAIN });
    again.ask();
    const ends = [on("call", again.ask), onReturn(again.ask)];
    return () => {
      stop.abort();
      again.end();
      for (const end of ends) end();
    };
  }, [filters.tool, filters.hours]);
  const sums = sumsOf(series);
  /** @type {Record<string, number>} */
  const numbers = { ...sums.outcomes, running: running.value.length };
  return html`<div class="chips" role="group" aria-label="Outcome, of the last ${hours} hours">${outcomes
      .filter((name) => numbers[name] || filters.outcome === name || ["running", "ok", "failed"].includes(name))
      .map((name) => html`<button type="button" class="chip" key=${name} aria-pressed=${filters.outcome === name ? "true" : "false"} onClick=${() => choose(name)}><${State} state=${name} /><b>${count(numbers[name] ?? 0)}</b></button>`)}
      ${sums.repaired > 0 && html`<span class="soft figures"><${State} state="repaired" word="${count(sums.repaired)} repaired" /></span>`}</div>
    ${sums.calls > 0 && html`<${Histogram} series=${series} hours=${hours} />`}`;
}

/** @param {{series: any, hours: number}} props */
function Histogram({ series, hours }) {
  const total = series.times.map((/** @type {number} */ _, /** @type {number} */ at) => OUTCOMES.reduce((sum, name) => sum + (series.outcomes[name]?.[at] ?? 0), 0));
  const most = Math.max(...total, 1);
  const bars = total.map((/** @type {number} */ _, /** @type {number} */ at) => {
    let y = HEIGHT;
    return OUTCOMES.map((name) => {
      const height = ((series.outcomes[name]?.[at] ?? 0) / most) * (HEIGHT - 2);
      y -= height;
      return height > 0 && html`<rect class="f-${fill(name)}" x=${at * 10 + 1} y=${y} width="8" height=${height} />`;
    });
  });
  return html`<svg class="chart histogram" viewBox="0 0 ${Math.max(total.length, 1) * 10} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Calls over the last ${hours === 1 ? "hour" : `${hours} hours`} by outcome, at most ${most} in a bar; the buttons above have the figures">${bars}</svg>`;
}
