// @ts-check
/** The page Calls: a live list of which only the rows on the screen are made, and one call in full beside it. */
import { get, words } from "./api.js";
import { Drawer, RunningDrawer } from "./call_drawer.js";
import { Bars } from "./call_bars.js";
import { coalesced } from "./coalesce.js";
import { brief, count, plural, seconds } from "./format.js";
import { rowKeys, useKeys } from "./keys.js";
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { on, onResume } from "./live.js";
import { Command, Empty, Icon, NoJournal, Problem, Repairs, State, Time, Took } from "./parts.js";
import { go, href, route } from "./router.js";
import { readRow } from "./rows.js";
import { approvals, isRecorded, running, tools } from "./state.js";

/** @typedef {import("./rows.js").CallRow} CallRow */

const PAGE = 200;
const OVERSCAN = 12;
/** Heights of a row, as tokens.css and narrow.css say them. */
const ROW = 28;
const PHONE_ROW = 53;
/** Milliseconds that new rows are gathered before the list is drawn again. */
const GATHER = 120;
const OUTCOMES = ["running", "ok", "refused", "failed", "timeout", "in_doubt", "cancelled"];
const SPANS = { "1": "Last hour", "24": "Last 24 hours", "168": "Last 7 days", "": "All" };
const FILTERS = ["q", "tool", "outcome", "consumer", "conversation", "hours"];

/** The list, kept while another page is shown. `shown`: how many there were when its newest row was read. */
const list = signal({ key: "", rows: /** @type {CallRow[]} */ ([]), next: /** @type {string | null} */ (null), total: /** @type {number | null} */ (null), shown: /** @type {number | null} */ (null), isWhole: false, problem: "" });

export function Page() {
  const { id, query } = route.value;
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const [paused, setPaused] = useState(false);
  const fresh = useRows(filters, paused);
  const { problem, isWhole } = list.value;
  const rows = [...runningRows(filters, list.value.rows), ...list.value.rows];
  const at = rows.findIndex((row) => row.id === id);
  const open = (/** @type {string} */ call) => go(href("calls", call, filters), { replace: Boolean(id) });
  const set = (/** @type {Record<string, string>} */ change) => go(href("calls", id, { ...filters, ...change }), { replace: true });
  const isFiltered = FILTERS.some((name) => filters[name]);
  useKeys({
    ...rowKeys(rows.length, at, (to) => open(rows[to]?.id ?? "")),
    Enter: () => at < 0 && rows[0] && open(rows[0].id),
    Escape: () => (id ? go(href("calls", "", filters)) : go("#/calls")),
  });
  return html`<div class="calls ${id ? "drawer-open" : ""}">
    <section class="pane" aria-label="Calls">
      <h1 class="sr">Calls</h1>
      <${Filters} filters=${filters} set=${set} paused=${paused} setPaused=${setPaused} />
      ${problem && isRecorded.value && html`<div class="lost"><${Problem}>${problem}<//></div>`}
      ${fresh.count > 0 && html`<button type="button" class="fresh" onClick=${fresh.show}>${count(fresh.count)} new</button>`}
      ${!rows.length && !isRecorded.value ? html`<div class="lost"><${NoJournal} /></div>` : !rows.length && isWhole && !list.value.next ? html`<${Nothing} isFiltered=${isFiltered} />` : html`<${Rows} rows=${rows} chosen=${id} open=${open} atTop=${fresh.atTop} />`}
      <${Foot} rows=${rows} />
    </section>
    ${id && html`<${id.startsWith("run-") ? RunningDrawer : Drawer} key=${id} id=${id} close=${() => go(href("calls", "", filters))} link=${(/** @type {string} */ call) => href("calls", call, filters)} />`}
  </div>`;
}

/** @param {Record<string, string>} filters */
function question({ hours, ...rest }) {
  return { ...rest, since: hours ? `${hours}h` : "" };
}

/**
 * Reads the rows that fit, and follows what happens. A list at its top is what the newest page says: under load, more may happen
 * between two looks than a page holds. One that stands still says how many are new.
 * @param {Record<string, string>} filters @param {boolean} paused
 */
function useRows(filters, paused) {
  const key = JSON.stringify(filters);
  const [fresh, setFresh] = useState(0);
  const atTop = useRef(true);
  const isPaused = useRef(paused);
  isPaused.current = paused;
  const isWanted = useRef(key);
  isWanted.current = key;
  const show = (/** @type {AbortSignal} */ signal = new AbortController().signal) => readFirst(key, filters, signal).then(() => setFresh(0));
  useEffect(() => {
    const stop = new AbortController();
    const read = () => void show(stop.signal);
    const timer = setTimeout(read, list.value.key === key || !filters.q ? 0 : 200);
    const end = onResume(read);
    return () => {
      stop.abort();
      clearTimeout(timer);
      end();
    };
  }, [key]);
  useEffect(() => {
    // What an event says of a call is little: the newest calls are read, once for many events.
    const look = coalesced(async () => {
      const wanted = isWanted.current;
      const page = await readPage(JSON.parse(wanted));
      if (isWanted.current !== wanted || list.value.key !== wanted) return;
      const stands = isPaused.current || !atTop.current;
      setFresh(stands ? newer(page) : 0);
      list.value = { ...list.value, ...(stands ? { rows: updated(page.rows) } : { ...page, shown: page.total }), total: page.total };
    }, { gather: GATHER });
    const ends = [on("call", look.ask), on("missed", look.ask), on("effects", look.ask)];
    return () => {
      look.end();
      for (const end of ends) end();
    };
  }, []);
  useEffect(() => {
    if (!paused && atTop.current && fresh) void show();
  }, [paused]);
  const toTop = () => show().then(() => document.querySelector(".tablebox")?.scrollTo({ top: 0 }));
  return { count: fresh, show: toTop, atTop };
}

/** @param {Record<string, string>} filters @param {{before?: string, stop?: AbortSignal}} [how] @returns {Promise<{rows: CallRow[], next: string | null, total: number | null}>} */
async function readPage(filters, { before = "", stop } = {}) {
  const { calls, next, total } = await get("/api/calls", { ...question(filters), limit: PAGE, before }, stop);
  return { rows: calls.map(readRow), next, total };
}

/** How many calls are new since the list was read: of a search, as far as the page says. @param {{rows: CallRow[], total: number | null}} page */
function newer({ rows, total }) {
  const known = new Set(list.value.rows.map((row) => row.id));
  const found = rows.filter((row) => !known.has(row.id)).length;
  return Math.max(found, total === null || list.value.shown === null ? 0 : total - list.value.shown);
}

/** The rows of the list, as the newest page has them. @param {CallRow[]} newest */
function updated(newest) {
  const now = new Map(newest.map((row) => [row.id, row]));
  return list.value.rows.map((row) => now.get(row.id) ?? row);
}

/** Of the calls that run, those that the journal does not list yet and that fit. @param {Record<string, string>} filters @param {CallRow[]} rows @returns {CallRow[]} */
function runningRows(filters, rows) {
  const { q, tool, outcome, consumer, conversation } = filters;
  if (q || consumer || conversation || (outcome && outcome !== "running")) return [];
  const known = new Set(rows.slice(0, PAGE).map((row) => row.id));
  const found = running.value.filter((call) => (!tool || call.tool === tool) && !known.has(call.recorded_as));
  return found.map((call) => ({ id: call.id, tool: call.tool, outcome: call.state, word: call.state, at: seconds(call.started), ms: null, args: progressText(call), repaired: false, consumer: "", raw: call })).reverse();
}

/** @param {any} call */
function progressText({ progress, phase }) {
  if (!progress) return phase ? `waits for ${phase}` : "";
  return [progress.total ? `${progress.progress} of ${progress.total}` : progress.progress, progress.message].filter(Boolean).join(": ");
}

/** @param {string} key @param {Record<string, string>} filters @param {AbortSignal} stop */
async function readFirst(key, filters, stop) {
  try {
    const page = await readPage(filters, { stop });
    if (!stop.aborted) list.value = { ...page, key, shown: page.total, isWhole: true, problem: "" };
  } catch (error) {
    if (!stop.aborted) list.value = { ...list.value, problem: words(error) };
  }
}

let isReading = false;

/** The next page, when the end comes near. @param {Record<string, string>} filters */
async function readMore(filters) {
  const { next, key } = list.value;
  if (!next || isReading) return;
  isReading = true;
  try {
    const page = await readPage(filters, { before: next });
    if (list.value.key === key && list.value.next === next) list.value = { ...list.value, rows: [...list.value.rows, ...page.rows], next: page.next };
  } catch {
    // It is asked for again when one scrolls on.
  } finally {
    isReading = false;
  }
}

/** @param {{filters: Record<string, string>, set: (change: Record<string, string>) => void, paused: boolean, setPaused: (paused: boolean) => void}} props */
function Filters({ filters, set, paused, setPaused }) {
  return html`<div class="bars">
    <div class="row wrap">
      <input class="input grow" data-filter placeholder="Filter by argument, result or error" aria-label="Filter by argument, result or error" value=${filters.q} onInput=${(/** @type {any} */ event) => set({ q: event.target.value })} />
      <select class="input pick" aria-label="Tool" value=${filters.tool} onChange=${(/** @type {any} */ event) => set({ tool: event.target.value })}><option value="">Any tool</option>${(tools.value ?? []).map((tool) => html`<option value=${tool.name}>${tool.name}</option>`)}</select>
      <select class="input pick" aria-label="Time" value=${filters.hours} onChange=${(/** @type {any} */ event) => set({ hours: event.target.value })}>${Object.entries(SPANS).sort(([a], [b]) => Number(a) - Number(b)).map(([hours, name]) => html`<option value=${hours}>${name}</option>`)}</select>
      ${["consumer", "conversation"].map((name) => filters[name] && html`<button type="button" class="chip" aria-pressed="true" onClick=${() => set({ [name]: "" })}>${name === "consumer" ? "asked by" : "conversation"} ${filters[name]}<${Icon} name="close" /><span class="sr">drop this filter</span></button>`)}
      <button type="button" class="btn" aria-pressed=${paused ? "true" : "false"} onClick=${() => setPaused(!paused)}><${Icon} name=${paused ? "play" : "waiting"} />${paused ? "Go on" : "Pause"}</button>
    </div>
    <${Bars} filters=${filters} choose=${(/** @type {string} */ outcome) => set({ outcome: filters.outcome === outcome ? "" : outcome })} outcomes=${OUTCOMES} />
  </div>`;
}

/** @param {{rows: CallRow[], chosen: string, open: (id: string) => void, atTop: {current: boolean}}} props */
function Rows({ rows, chosen, open, atTop }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, setView] = useState({ top: 0, height: 900 });
  const isPhone = matchMedia("(max-width: 720px)").matches;
  const height = isPhone ? PHONE_ROW : ROW;
  const measure = () => {
    if (!box.current) return;
    atTop.current = box.current.scrollTop < height;
    setView({ top: box.current.scrollTop, height: box.current.clientHeight });
  };
  useLayoutEffect(() => {
    measure();
    const watcher = new ResizeObserver(measure);
    if (box.current) watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const at = rows.findIndex((row) => row.id === chosen);
  useEffect(() => reveal(box.current, at * height, height), [chosen]);
  const first = Math.max(0, Math.floor(view.top / height) - OVERSCAN);
  const end = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + OVERSCAN);
  const { next } = list.value; // of a search, which may find nothing on a page
  useEffect(() => {
    if (end > rows.length - PAGE / 2) void readMore(JSON.parse(list.value.key || "{}"));
  }, [end, rows.length, next]);
  return html`<div class="tablebox" ref=${box} onScroll=${measure}>
    <table role="table" aria-label="Calls, the newest first" aria-rowcount=${list.value.next ? -1 : rows.length + 1}>
      <thead role="rowgroup"><tr role="row" aria-rowindex="1">${[["c-time", "Started"], ["c-out", "Outcome"], ["c-tool", "Tool"], ["c-args", "Arguments as run"], ["c-rep", html`<span class="sr">Repairs</span>`], ["c-by", "Asked by"], ["c-dur num", "Took"]].map(([kind, title]) => html`<th role="columnheader" scope="col" class=${kind}>${title}</th>`)}</tr></thead>
      <tbody role="rowgroup">
        ${first > 0 && html`<tr class="gap" aria-hidden="true"><td style=${{ height: `${first * height}px` }}></td></tr>`}
        ${rows.slice(first, end).map((row, index) => html`<${Row} key=${row.id} row=${row} number=${first + index + 2} isChosen=${row.id === chosen} open=${open} />`)}
        ${end < rows.length && html`<tr class="gap" aria-hidden="true"><td style=${{ height: `${(rows.length - end) * height}px` }}></td></tr>`}
      </tbody></table></div>`;
}

/** @param {HTMLElement | null} box @param {number} top @param {number} height */
function reveal(box, top, height) {
  if (!box || top < 0) return;
  const head = box.querySelector("thead")?.clientHeight ?? 0;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + height + head > box.scrollTop + box.clientHeight) box.scrollTop = top + height + head - box.clientHeight;
}

/** @param {{row: CallRow, number: number, isChosen: boolean, open: (id: string) => void}} props */
function Row({ row, number, isChosen, open }) {
  return html`<tr role="row" tabindex="0" aria-rowindex=${number} aria-selected=${isChosen ? "true" : undefined} onClick=${() => open(row.id)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter") return;
    event.stopPropagation();
    open(row.id);
  }}>
    <td role="cell"><${Time} at=${row.at} /></td>
    <td role="cell"><${State} state=${row.outcome} /></td>
    <td role="cell"><code>${row.tool}</code></td>
    <td role="cell"><code class="soft">${brief(row.args)}</code></td>
    <td role="cell"><${Repairs} number=${row.repaired} /></td>
    <td role="cell" class="soft">${row.consumer}</td>
    <td role="cell" class="num">${row.outcome === "running" ? html`<span class="dim">–</span>` : html`<${Took} ms=${row.ms} />`}</td>
  </tr>`;
}

/** @param {{isFiltered: boolean}} props */
function Nothing({ isFiltered }) {
  if (isFiltered) return html`<div class="lost"><${Empty} title="No call fits these filters"><p>The list changes by itself when one does.</p><a class="btn" href="#/calls">Drop the filters</a><//></div>`;
  const tool = tools.value?.[0]?.name ?? "greet";
  return html`<div class="lost"><${Empty} title="No calls yet"><p>Every call appears here when it starts, whoever asks: a model, an MCP client, the command line, this page.</p>
    <ol><li><span>From the command line</span><${Command} text="toolrun call ${tool}" /></li><li><span>From an MCP client</span><${Command} text="toolrun install claude-code" /></li></ol>
    <a class="btn primary" href="#/try"><${Icon} name="try" />Try a tool</a><//></div>`;
}

/** How many calls there are. @param {number} shown */
function number(shown) {
  const { next, total } = list.value;
  if (next) return total === null ? `${count(shown)} read; scroll for more` : `${count(shown)} of ${plural(total, "call")}`;
  return plural(Math.max(shown, total ?? 0), "call");
}

/** @param {{rows: CallRow[]}} props */
function Foot({ rows }) {
  const asked = (approvals.value ?? []).filter((it) => it.state === "pending").length;
  return html`<div class="foot"><span>${number(rows.length)}</span>${asked > 0 && html`<a href="#/effects">${asked} waiting for approval</a>`}
    <span class="push not-phone"><kbd>j</kbd> <kbd>k</kbd> move <kbd>/</kbd> filter <kbd>Esc</kbd> close</span></div>`;
}
