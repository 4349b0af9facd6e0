// @ts-check
/** When what happened in a call: a line for waiting, for running, for progress, and one for each call that it made. */
import { durationText, plural, seconds, visible } from "./format.js";
import { html } from "./lib.js";
import { readRow } from "./rows.js";
import { fill } from "./stats.js";

const LEFT = 92;
const WIDTH = 404;
const STEP = 18;
const MAX_CHILDREN = 12;

/** Marks are moments in the line, in ms. @typedef {{name: string, from: number, to: number, kind: string, text: string, marks?: {at: number, words: string}[]}} Bar */

/** @param {{raw: any, row: import("./rows.js").CallRow}} props */
export function Timeline({ raw, row }) {
  const bars = lines(raw, row);
  const all = Math.max(...bars.map((bar) => bar.to), 0.001);
  const x = (/** @type {number} */ ms) => LEFT + (Math.min(ms, all) / all) * (WIDTH - LEFT - 4);
  const height = 18 + bars.length * STEP + 4;
  return html`<section class="sect"><h2>Timeline</h2>
    <svg class="chart timeline" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label=${bars.map((bar) => `${bar.name} ${bar.text}`).join(", ")}>
      ${[0, 0.5, 1].map((part) => html`<line class="grid" x1=${x(part * all)} x2=${x(part * all)} y1="16" y2=${height} /><text x=${x(part * all)} y="10" text-anchor=${part === 1 ? "end" : part ? "middle" : "start"} class=${part === 1 ? "strong" : ""}>${part ? durationText(part * all) : "0"}</text>`)}
      ${bars.map((bar, at) => html`<${bar.marks ? Marks : Line} bar=${bar} y=${20 + at * STEP} x=${x} />`)}
    </svg>
    <ul class="logs" aria-label="What happened">${raw.timeline.map((/** @type {any} */ it) => html`<li key=${`${it.at}${it.event}${it.words}`}><time>${offset((seconds(it.at) - row.at) * 1000)}</time><span class="text">${visible(it.words)}</span></li>`)}</ul></section>`;
}

/** @param {{bar: Bar, y: number, x: (ms: number) => number}} props */
function Marks({ bar, y, x }) {
  const first = x(bar.from);
  return html`<text x="0" y=${y + 9}>${bar.name}</text>
    ${(bar.marks ?? []).map((mark) => html`<rect class="f-running" x=${Math.min(x(mark.at), WIDTH - 2) - 1} y=${y} width="2" height="11"><title>${visible(mark.words)}</title></rect>`)}
    ${first - LEFT > bar.text.length * 6 && html`<text x=${first - 7} y=${y + 9} text-anchor="end">${bar.text}</text>`}`;
}

/** @param {{bar: Bar, y: number, x: (ms: number) => number}} props */
function Line({ bar, y, x }) {
  const from = x(bar.from);
  const width = Math.max(x(bar.to) - from, 2);
  const fitsRight = from + width + 6 + bar.text.length * 6 < WIDTH;
  return html`<text x="0" y=${y + 9}>${bar.name.length > 14 ? `${bar.name.slice(0, 13)}…` : bar.name}<title>${bar.name}</title></text>
    <rect class="f-${bar.kind}" x=${from} y=${y} width=${width} height="11" rx="1" />
    ${fitsRight ? html`<text x=${from + width + 6} y=${y + 9}>${bar.text}</text>` : from - LEFT > bar.text.length * 6 ? html`<text x=${from - 6} y=${y + 9} text-anchor="end">${bar.text}</text>` : null}`;
}

/** @param {any} raw @param {import("./rows.js").CallRow} row @returns {Bar[]} */
function lines(raw, row) {
  const queued = (raw.queued_us ?? 0) / 1000;
  const ran = raw.run_us === null ? null : raw.run_us / 1000;
  const end = ran ?? (row.outcome === "running" ? Math.max(0, Date.now() - row.at * 1000 - queued) : Math.max(0, (row.ms ?? 0) - queued));
  const kind = row.outcome === "running" ? "running" : fill(row.outcome);
  /** @type {Bar[]} */
  const found = [{ name: "queued", from: 0, to: queued, kind: "neutral", text: durationText(queued) }];
  if (raw.worker) found.push({ name: "worker", from: queued, to: queued, kind: "neutral", text: raw.worker });
  if (row.outcome !== "refused") found.push({ name: "running", from: queued, to: queued + end, kind, text: durationText(end) });
  const marks = raw.timeline.filter((/** @type {any} */ it) => it.event === "progress").map((/** @type {any} */ it) => ({ at: Math.max(0, (seconds(it.at) - row.at) * 1000), words: it.words }));
  if (marks.length) found.push({ name: "progress", from: marks[0].at, to: marks[marks.length - 1].at, kind: "running", text: plural(marks.length, "report"), marks });
  for (const child of raw.children.slice(0, MAX_CHILDREN)) {
    const it = readRow(child);
    const from = Math.max(0, (it.at - row.at) * 1000);
    found.push({ name: it.tool, from, to: from + (it.ms ?? 0), kind: fill(it.outcome), text: durationText(it.ms) });
  }
  return found;
}

/** @param {number} ms since the call was accepted */
const offset = (ms) => (ms === 0 ? "0" : ms < 0 ? `−${durationText(-ms)}` : `+${durationText(ms)}`);
