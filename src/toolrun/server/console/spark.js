// @ts-check
/** A small line of the latency of a tool over the last day. */
import { durationText } from "./format.js";
import { html } from "./lib.js";

const WIDTH = 288;
const HEIGHT = 40;

/** @param {{values: (number | null)[]}} props */
export function Spark({ values }) {
  const known = values.filter((it) => it !== null);
  if (known.length < 2) return null;
  const most = Math.max(...known) || 1;
  const points = values.map((it, at) => (it === null ? null : [(at / Math.max(1, values.length - 1)) * (WIDTH - 4) + 2, HEIGHT - 3 - (it / most) * (HEIGHT - 8)]));
  const path = points.reduce((text, point, at) => (point ? `${text}${at && points[at - 1] ? "L" : "M"}${point.map((it) => it.toFixed(1)).join(" ")}` : text), "");
  const lone = points.filter((point, at) => point && !points[at - 1] && !points[at + 1]);
  return html`<figure class="spark"><svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="p50 of the last 24 hours, at most ${durationText(most)}">
    <line class="grid" x1="0" x2=${WIDTH} y1=${HEIGHT - 3} y2=${HEIGHT - 3} /><path class="l l-spark" d=${path} />${lone.map((point) => html`<circle class="d-spark" cx=${point?.[0]} cy=${point?.[1]} r="1.5" />`)}</svg>
    <figcaption class="row dim"><span>24 h ago</span><span class="push">p50, up to ${durationText(most)}</span></figcaption></figure>`;
}
