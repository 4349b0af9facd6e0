// @ts-check
/** The page Tools: sources with their health, and one tool in full. */
import { get, words } from "./api.js";
import { coalesced } from "./coalesce.js";
import { count, durationText, plural } from "./format.js";
import { Json } from "./json_view.js";
import { rowKeys, useKeys } from "./keys.js";
import { html, useEffect, useMemo, useRef, useState } from "./lib.js";
import { on, onReturn } from "./live.js";
import { Command, Copy, Empty, Fact, Icon, Note, Problem, Repairs, State, Tabs, Took, Time } from "./parts.js";
import { go, href, route } from "./router.js";
import { readRow } from "./rows.js";
import { SchemaTable } from "./schema_table.js";
import { isUp } from "./server_state.js";
import { Spark } from "./spark.js";
import { health, missing, tools } from "./state.js";
import { Outcomes, sumsOf } from "./stats.js";

/** @typedef {import("./types.js").Tool} Tool */

/** @type {Record<string, string>} */
const KINDS = { function: "Functions, in this process", script: "Script, in workers of its own", mcp: "MCP server", catalog: "Catalog, in this process", builtin: "Built in", object: "In this process" };
/** @type {Record<string, string>} */
const PROVIDERS = { mcp: "MCP", anthropic: "Anthropic", openai: "OpenAI", ollama: "Ollama", gemini: "Gemini", qwen: "Qwen" };

export function Page() {
  const [filter, setFilter] = useState("");
  const all = tools.value;
  const groups = useMemo(() => grouped(all ?? [], filter), [all, filter]);
  const shown = groups.flatMap(([, members]) => members);
  const { id } = route.value;
  const chosen = id || (matchMedia("(min-width: 721px)").matches ? (shown[0]?.name ?? "") : "");
  const choose = (/** @type {number} */ at) => go(href("tools", shown[at]?.name ?? ""), { replace: true });
  useKeys({
    ...rowKeys(shown.length, shown.findIndex((tool) => tool.name === chosen), choose),
    Escape: () => (id && matchMedia("(max-width: 720px)").matches ? go("#/tools") : setFilter("")),
  });
  if (all === null) return html`<p class="lost dim">Reading the tools</p>`;
  if (!all.length) return html`<${NoTools} />`;
  return html`<div class="tools ${id ? "drawer-open" : ""}">
    <section class="pane list" aria-label="Sources and tools">
      <div class="filter">
        <input class="input" data-filter placeholder="Filter ${plural(all.length, "tool")}" aria-label="Filter tools" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} />
        <${Summary} all=${all} />
      </div>
      ${groups.map(([source, members]) => html`<${Source} key=${source} source=${source} members=${members} chosen=${chosen} />`)}
      ${!shown.length && html`<p class="lost dim">No tool is called so.</p>`}
      ${missing.value.length > 0 && html`<div class="src"><h2>Not loaded</h2>${missing.value.map((text) => html`<p class="prose st-failed">${text}</p>`)}</div>`}
    </section>
    ${chosen ? html`<${Detail} key=${chosen} name=${chosen} />` : html`<div class="pane detail"></div>`}
  </div>`;
}

/** @param {Tool[]} all @param {string} filter @returns {[string, Tool[]][]} */
function grouped(all, filter) {
  const text = filter.trim().toLowerCase();
  /** @type {Map<string, Tool[]>} */
  const found = new Map();
  for (const tool of all) {
    if (text && !`${tool.name}\n${tool.description}\n${tool.source.name}`.toLowerCase().includes(text)) continue;
    const group = found.get(tool.source.name);
    if (group) group.push(tool);
    else found.set(tool.source.name, [tool]);
  }
  return [...found];
}

/** @param {{all: Tool[]}} props */
function Summary({ all }) {
  const down = (health.value?.servers ?? []).filter((server) => !isUp(server.state)).length;
  const heldBack = all.filter((tool) => tool.state === "held").length;
  return html`<div class="row dim"><span class="nowrap">${plural(new Set(all.map((tool) => tool.source.name)).size, "source")}, ${plural(all.length, "tool")}</span>
    <span class="push">${heldBack > 0 && html`<${State} state="waiting" word="${heldBack} held" />`} ${down > 0 && html`<${State} state="failed" word="${down} not connected" />`}</span></div>`;
}

/** Tools of a source that are listed at once: more take longer to make than anybody reads. */
const MANY = 150;

/** @param {{source: string, members: Tool[], chosen: string}} props */
function Source({ source, members, chosen }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? members : members.filter((tool, at) => at < MANY || tool.name === chosen);
  const kind = members[0]?.source.kind ?? "";
  const server = health.value?.servers.find((it) => it.name === source);
  const workers = (health.value?.workers ?? []).filter((it) => it.script === source || it.script.endsWith(`/${source}`)).length;
  const about = [KINDS[kind] ?? kind, plural(members.length, "tool"), workers ? plural(workers, "worker") : ""].filter(Boolean).join(", ");
  const lost = members.every((tool) => tool.state === "unavailable");
  const [state, word] = server ? (isUp(server.state) ? ["ok", "connected"] : ["failed", server.state.replaceAll("_", " ")]) : lost ? ["failed", "not available"] : ["ok", "loaded"];
  return html`<div class="src"><div class="row"><h2 class="cut">${source}</h2><span class="push"><${State} state=${state} word=${word} /></span></div>
      <p class="cut">${about}${server?.error ? `, ${server.error}` : ""}</p></div>
    <ul class="tl">${shown.map((tool) => html`<${Row} key=${tool.name} tool=${tool} isChosen=${tool.name === chosen} />`)}${shown.length < members.length && html`<li><button type="button" class="btn small" onClick=${() => setWhole(true)}>Show all ${count(members.length)}</button></li>`}</ul>`;
}

/** @param {{tool: Tool, isChosen: boolean}} props */
function Row({ tool, isChosen }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (isChosen) ref.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  return html`<li ref=${ref}><a href=${href("tools", tool.name)} aria-current=${isChosen ? "true" : undefined}>
    <span class="row"><code class="cut">${tool.name}</code>
      ${tool.approval === "ask" && html`<span class="badge waiting">asks first</span>`}${tool.state === "held" && html`<span class="badge waiting">held</span>`}${
        tool.state === "unavailable" && html`<span class="badge failed">not available</span>`
      }</span>
    <span class="num dim">${tool.calls > 0 && count(tool.calls)}</span>
    <span class="num">${tool.calls > 0 ? html`<${Took} ms=${tool.p50_ms} />` : html`<span class="dim">no calls</span>`}</span>
  </a></li>`;
}

/** @param {{name: string}} props */
function Detail({ name }) {
  const [tool, setTool] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [calls, setCalls] = useState(/** @type {any[] | null} */ (null));
  const [stats, setStats] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    const readTool = () =>
      get(`/api/tools/${encodeURIComponent(name)}`, {}, stop.signal).then(
        (found) => {
          setTool(found);
          setProblem("");
        },
        (error) => stop.signal.aborted || setProblem(words(error)),
      );
    const readCalls = () => get("/api/calls", { tool: name, limit: 8 }, stop.signal).then((found) => setCalls(found.calls.map(readRow)), () => setCalls([]));
    const about = { tool: name, since: "24h" };
    const readFigures = () =>
      Promise.all([get("/api/stats", about, stop.signal), get("/api/series", { ...about, step: 1800 }, stop.signal)]).then(
        ([figures, series]) => setStats({ ...figures.tools[0], series }),
        () => stop.signal.aborted || setStats({}),
      );
    const again = coalesced(() => Promise.all([readCalls(), readFigures()]), { gather: 1000 });
    readTool();
    readCalls();
    readFigures();
    const resume = onReturn(() => {
      readTool();
      again.ask();
    });
    const ends = [on("call", (row) => row.tool === name && again.ask()), on("tools", readTool), resume];
    return () => {
      stop.abort();
      again.end();
      for (const end of ends) end();
    };
  }, [name]);
  if (problem) return html`<article class="pane detail"><${Back} /><h1 class="title">${name}</h1><${Problem}>${problem}<//></article>`;
  if (!tool) return html`<article class="pane detail" aria-busy="true"><h1 class="title">${name}</h1></article>`;
  return html`<article class="pane detail" aria-labelledby="tool-name">
    <div class="sect"><div class="row wrap"><${Back} /><h1 class="title" id="tool-name">${tool.name}</h1>
      <span class="row push"><${Copy} text=${() => JSON.stringify(tool.schema, null, 2)} name="Copy schema" small=${false} /><a class="btn primary" href=${href("try", tool.name)}><${Icon} name="try" />Try</a></span></div>
      <p class="prose">${tool.description || html`<span class="dim">It has no description: models have to guess from its name.</span>`}</p>
      <${Facts} tool=${tool} />
      ${tool.problem && html`<${Problem}>${typeof tool.problem === "string" ? tool.problem : JSON.stringify(tool.problem)}<//>`}
      ${tool.state === "held" && html`<${Note} kind="waiting" icon="held"><b>Its definition has changed, and nobody has accepted that.</b> It is not offered to models. <a href="#/effects">Compare and decide</a><//>`}
    </div>
    <div class="two"><div class="stack">
      <section class="sect" aria-label="Parameters"><h2>Parameters</h2><${SchemaTable} schema=${tool.schema} /></section>
      ${tool.output_schema && html`<section class="sect" aria-label="Result"><h2>Result</h2><${SchemaTable} schema=${tool.output_schema} label="Parts of the result" /></section>`}
      <${Views} tool=${tool} />
    </div><div class="stack">
      <${Latency} raw=${stats} />
      <section class="sect"><div class="row"><h2>Recent calls</h2><a class="push" href=${href("calls", "", { tool: tool.name })}>All</a></div><${Recent} calls=${calls} name=${tool.name} /></section>
    </div></div>
  </article>`;
}

const Back = () => html`<a class="btn small quiet only-phone" href="#/tools"><${Icon} name="back" />Tools</a>`;

/** @param {{tool: any}} props */
function Facts({ tool }) {
  /** @type {Record<string, string>} */
  const effects = { none: "only reads", idempotent: "acts, repeatable", keyed: "acts, once for each key", once: "acts, not repeatable" };
  const notes = Object.entries(tool.annotations ?? {}).filter(([, value]) => value !== null && typeof value !== "object");
  return html`<div class="facts">
    <${Fact} name="Source">${tool.source.name}<//>
    <${Fact} name="Runs">${KINDS[tool.source.kind] ?? tool.source.kind}<//>
    <${Fact} name="Deadline">${tool.timeout === null ? "none" : durationText(tool.timeout * 1000).replace(".00", "")}<//>
    <${Fact} name="Effects">${effects[tool.effects] ?? "not declared"}<//>
    <${Fact} name="Approval">${{ ask: "a person is asked", deny: "refused always", allow: "not asked" }[/** @type {string} */ (tool.approval)] ?? "not asked"}<//>
    ${tool.definition && html`<${Fact} name="Definition"><code>${String(tool.definition).slice(0, 8)}</code><//>`}
    ${notes.length > 0 && html`<${Fact} name="Hints">${notes.map(([name, value]) => (value === true ? name : `${name}: ${value}`)).join(", ")}<//>`}
  </div>`;
}

/** @param {{tool: any}} props */
function Views({ tool }) {
  const own = { id: "own", name: "Own schema", panel: () => html`<div class="sect"><${Json} value=${tool.schema} label="Own schema" /></div>` };
  const views = Object.entries(tool.views ?? {}).map(([id, view]) => ({
    id,
    name: PROVIDERS[id] ?? id,
    panel: () => html`<${View} view=${view} name=${PROVIDERS[id] ?? id} />`,
  }));
  return html`<section class="sect" aria-label="What models get to see"><h2>What models get to see</h2><${Tabs} label="What each provider gets" tabs=${[own, ...views]} /></section>`;
}

/** @param {{view: any, name: string}} props */
function View({ view, name }) {
  const notes = view.notes ?? [];
  return html`<div class="sect">
    ${
      notes.length
        ? html`<${Note}><b>Changed for ${name} in ${plural(notes.length, "place")}.</b> Calls are still checked with the tool's own schema.<ul class="notes">${notes.map((/** @type {any} */ it) => html`<li>${typeof it === "string" ? it : JSON.stringify(it)}</li>`)}</ul><//>`
        : html`<p class="soft">Sent as it is: ${name} takes the whole schema.</p>`
    }
    <${Json} value=${view.definition ?? view} label="What ${name} gets" /></div>`;
}

/** @param {{raw: any}} props */
function Latency({ raw }) {
  if (!raw) return null;
  if (!raw.calls) return html`<section class="sect"><h2>Latency</h2><p class="dim">Nobody has called it in the last 24 hours.</p></section>`;
  const sums = sumsOf(raw.series);
  return html`<section class="sect"><div class="row"><h2>Latency</h2><span class="dim push">last 24 h</span></div>
    <div class="figs">${["p50", "p95", "p99"].map((title) => html`<div><span>${title}</span><b><${Took} ms=${raw[`${title}_us`] / 1000} /></b></div>`)}<div><span>calls</span><b>${count(raw.calls)}</b></div></div>
    <${Spark} values=${raw.series.p50_ms} /></section>
    <section class="sect"><div class="row"><h2>Outcomes</h2><span class="dim push">${plural(sums.calls, "call")}</span></div><${Outcomes} sums=${sums} />
      ${Object.keys(raw.repairs ?? {}).length > 0 && html`<h3>What was repaired</h3><dl class="meta wide">${Object.entries(raw.repairs).sort((a, b) => Number(b[1]) - Number(a[1])).slice(0, 8).map(([why, number]) => html`<dt class="num">${count(Number(number))}</dt><dd>${why}</dd>`)}</dl>`}</section>`;
}

/** @param {{calls: any[] | null, name: string}} props */
function Recent({ calls, name }) {
  if (!calls) return null;
  if (!calls.length) return html`<p class="dim">None yet. <a href=${href("try", name)}>Try it</a>.</p>`;
  return html`<table class="bare"><thead><tr><th scope="col">Time</th><th scope="col">Outcome</th><th scope="col" class="num">Took</th></tr></thead><tbody>${calls.map(
    (call) => html`<tr key=${call.id}><td><a href=${href("calls", call.id)}><${Time} at=${call.at} /></a></td><td><span class="row"><${State} state=${call.outcome} /><${Repairs} number=${call.repaired} /></span></td><td class="num"><${Took} ms=${call.ms} /></td></tr>`,
  )}</tbody></table>`;
}

function NoTools() {
  const ways = [["Write one, as a Python file that works at once", "toolrun new greet"], ["Take the MCP servers that other programs have", "toolrun import --all"]];
  return html`<div class="lost"><h1 class="sr">Tools</h1><${Empty} title="No tools yet"><p>The project names no source that has a tool. Any of these gives it one; the list changes by itself.</p>
    <ol>${ways.map(([what, command]) => html`<li><span>${what}</span><${Command} text=${command} /></li>`)}</ol>
    <p class="dim">Did you expect some? <code>toolrun doctor</code> says what was not loaded, and why.</p><//></div>`;
}
