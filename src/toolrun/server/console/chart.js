// @ts-check
/** Charts of uPlot, in the colours of the theme. A table beside each has its figures: a canvas says nothing to a screen reader. */
import { count, durationText } from "./format.js";
import { html, useEffect, useRef } from "./lib.js";
import { fill, OUTCOMES } from "./stats.js";

const HEIGHT = 196;

/** The colour that a token has now, as a canvas takes it. @param {string} token */
function colour(token) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${token})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/**
 * @param {{label: string, data: any[][], options: () => any}} props `options`: of uPlot, made anew when the theme changes
 */
export function Chart({ label, data, options }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const now = useRef(data);
  now.current = data;
  useEffect(() => {
    let isOver = false;
    const make = async () => {
      const { default: UPlot } = await import("./uplot.js");
      if (isOver || !box.current) return;
      plot.current?.destroy();
      plot.current = new UPlot({ width: box.current.clientWidth, height: HEIGHT, legend: { show: false }, ...options() }, /** @type {any} */ (now.current), box.current);
    };
    void make();
    const watcher = new ResizeObserver(() => plot.current?.setSize({ width: box.current?.clientWidth ?? 300, height: HEIGHT }));
    if (box.current) watcher.observe(box.current);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", make);
    addEventListener("toolrun-theme", make);
    return () => {
      isOver = true;
      watcher.disconnect();
      dark.removeEventListener("change", make);
      removeEventListener("toolrun-theme", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [data]);
  return html`<div class="plot" role="img" aria-label=${label} ref=${box}></div>`;
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** How wide the labels of an axis are, about. @param {unknown} _ @param {string[] | null} labels */
const room = (_, labels) => Math.max(40, ...(labels ?? []).map((label) => 14 + 6.5 * (label?.length ?? 0)));

/** @param {(values: number[]) => string[]} values @param {any} [filter] */
function axes(values, filter = undefined) {
  const ink = colour("text-3");
  const grid = { stroke: colour("line"), width: 1, ...(filter ? { filter } : {}) };
  return [
    { stroke: ink, font: FONT, grid: { show: false }, ticks: { show: false }, values: "{HH}:{mm}", space: 70, size: 24 },
    { stroke: ink, font: FONT, grid, ticks: { show: false }, size: room, ...(filter ? { filter } : {}), values: (/** @type {any} */ _, /** @type {number[]} */ splits) => values(splits), space: 34 },
  ];
}

/** Of a logarithmic scale, only powers of ten: the lines between say nothing. @param {any} _ @param {number[]} splits */
const decades = (_, splits) => splits.map((it) => (Number.isInteger(Math.round(Math.log10(it) * 1e9) / 1e9) ? it : null));

/** Percentiles over time, on a logarithmic scale. */
export function latencyOptions() {
  const line = (/** @type {string} */ label, /** @type {string} */ token, /** @type {number[]} */ dash = []) => ({ label, stroke: colour(token), width: 1.5, dash, spanGaps: true, points: { size: 4, show: true, fill: colour(token) } });
  return {
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { distr: 3, range: (/** @type {any} */ _, /** @type {number} */ least, /** @type {number} */ most) => [10 ** Math.floor(Math.log10(least || 0.01)), 10 ** Math.ceil(Math.log10((most || 1) * 1.0001))] } },
    axes: axes((splits) => splits.map((it) => (it === null || it === undefined ? "" : durationText(it).replace(/\.0+(?= )/, ""))), decades),
    series: [{}, line("p50", "accent"), line("p95", "text-2"), line("p99", "text-3", [3, 3])],
  };
}

/** Outcomes as bars that stand on each other, and how many calls were repaired as a line. */
export function outcomeOptions() {
  return {
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, Math.max(most, 4) * 1.08] } },
    axes: axes((splits) => splits.map((it) => (Number.isInteger(it) ? count(it) : ""))),
    series: [
      {},
      ...[...OUTCOMES].reverse().map((name) => ({ label: name, fill: colour(`${fill(name)}-fill`), stroke: "transparent", width: 0, points: { show: false }, paths: bars })),
      { label: "repaired", stroke: colour("repaired"), width: 1.5, points: { show: false }, spanGaps: true },
    ],
  };
}

/** Bars from nothing to the value; those that are drawn first are the highest. @param {any} plot @param {number} series @param {number} first @param {number} last */
function bars(plot, series, first, last) {
  const path = new Path2D();
  const [times, values] = [plot.data[0], plot.data[series]];
  const step = times.length > 1 ? plot.valToPos(times[1], "x", true) - plot.valToPos(times[0], "x", true) : 20;
  const width = Math.max(1, step * 0.8);
  const zero = plot.valToPos(0, "y", true);
  for (let at = first; at <= last; at += 1) {
    if (!values[at]) continue;
    const top = plot.valToPos(values[at], "y", true);
    path.rect(plot.valToPos(times[at], "x", true) - width / 2, top, width, zero - top);
  }
  return { fill: path, stroke: null, clip: null, band: null, gaps: null, flags: 0 };
}

/** The data of `outcomeOptions`: each sum of an outcome and those below it. @param {any} series */
export function stacked(series) {
  const sums = series.times.map(() => 0);
  const layers = OUTCOMES.map((name) => series.times.map((/** @type {number} */ _, /** @type {number} */ at) => (sums[at] += series.outcomes[name]?.[at] ?? 0)));
  return [series.times, ...layers.reverse(), series.repaired];
}

/** How many workers were busy, as an area, and how many calls were at work in all. */
export function occupancyOptions() {
  return {
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, (most || 1) * 1.1] } },
    axes: axes((splits) => splits.map((it) => (it >= 10 ? count(Math.round(it)) : String(Number(it.toPrecision(2)))))),
    series: [{}, { label: "in workers", stroke: colour("running"), fill: colour("running-tint"), width: 1.5, points: { show: false } }, { label: "in all", stroke: colour("text-2"), width: 1.5, points: { show: false } }],
  };
}
