// @ts-check
/** The page Health: servers, workers, queues, threads, and charts of how calls went. */
import { get, post, words } from "./api.js";
import { Chart, latencyOptions, occupancyOptions, outcomeOptions, stacked } from "./chart.js";
import { coalesced } from "./coalesce.js";
import { count, durationText, plural, visible } from "./format.js";
import { html, useEffect, useMemo, useState } from "./lib.js";
import { on, onReturn } from "./live.js";
import { Problem, State, Took } from "./parts.js";
import { href } from "./router.js";
import { effects, health, refreshHealth, running } from "./state.js";
import { OUTCOMES, sumsOf } from "./stats.js";
import { isUp } from "./server_state.js";

/** Hours, with their name and the seconds of a bar. */
const SPANS = [
  { hours: 1, name: "1 h", step: 60 },
  { hours: 24, name: "24 h", step: 1200 },
  { hours: 168, name: "7 d", step: 7200 },
];
/** @param {number} hours */
const stepOf = (hours) => SPANS.find((it) => it.hours === hours)?.step ?? 60;
const AGAIN = 5000;

export function Page() {
  const [hours, setHours] = useState(1);
  const [series, stats] = useFigures(hours);
  const it = health.value;
  useEffect(() => {
    refreshHealth();
    const timer = setInterval(refreshHealth, AGAIN);
    return () => clearInterval(timer);
  }, []);
  if (!it) return html`<p class="lost dim">Reading the health</p>`;
  const down = it.servers.filter((server) => !isUp(server.state));
  const problems = [...it.problems, ...(it.journal?.problem ? [`The journal: ${it.journal.problem}`] : [])];
  return html`<div class="head"><h1>Health</h1>
      ${down.length ? html`<${State} state="failed" word="${down.length} of ${plural(it.servers.length, "server")} not connected" />` : problems.length ? html`<${State} state="failed" word=${plural(problems.length, "problem")} />` : html`<${State} state="ok" word="all is well" />`}
      <span class="push row" role="group" aria-label="Time">${SPANS.map((span) => html`<button type="button" class="chip" aria-pressed=${span.hours === hours ? "true" : "false"} onClick=${() => setHours(span.hours)}>${span.name}</button>`)}</span></div>
    <div class="health">
      ${problems.map((text) => html`<${Problem}>${text}<//>`)}
      <${Figures} series=${series} hours=${hours} />
      <div class="half"><${Latency} series=${series} stats=${stats} /><${Outcomes} series=${series} hours=${hours} /></div>
      <div class="wide"><div class="stack tight"><${Servers} servers=${it.servers} /><${Workers} workers=${it.workers} /></div>
        <div class="stack tight"><${Occupancy} series=${series} /><${Threads} threads=${it.threads} /><${Journal} journal=${it.journal} /></div></div>
    </div>`;
}

/** @param {number} hours @returns {[any, any]} */
function useFigures(hours) {
  const [series, setSeries] = useState(/** @type {any} */ (null));
  const [stats, setStats] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    const since = `${hours}h`;
    const read = () =>
      Promise.all([
        get("/api/series", { since, step: stepOf(hours) }, stop.signal).then(setSeries),
        get("/api/stats", { since }, stop.signal).then((found) => setStats(found.tools)),
      ]);
    const again = coalesced(read, { pause: AGAIN });
    again.ask();
    const ends = [on("call", again.ask), onReturn(again.ask)];
    return () => {
      stop.abort();
      again.end();
      for (const end of ends) end();
    };
  }, [hours]);
  return [series, stats];
}

/** @param {{series: any, hours: number}} props */
function Figures({ series, hours }) {
  const { calls: all, repaired, outcomes } = sumsOf(series);
  const bad = (outcomes.failed ?? 0) + (outcomes.timeout ?? 0) + (outcomes.in_doubt ?? 0);
  const it = health.value;
  const { queues } = it ?? {};
  const abandoned = Object.values(it?.threads.abandoned ?? {}).reduce((sum, number) => sum + number, 0);
  const doubts = effects.value?.length ?? 0;
  const rate = all / (hours * 60);
  return html`<div class="kpis">
    <div><span>Running</span><b>${count(queues?.running ?? running.value.length)}</b><em>of ${count(queues?.max_concurrency ?? 0)} places</em></div>
    <div><span>Queued</span><b>${count(queues?.queued ?? 0)}</b><em>of ${count(queues?.max_queue ?? 0)} that may wait</em></div>
    <div><span>Calls a minute</span><b>${rate >= 10 ? count(Math.round(rate)) : rate.toFixed(1)}</b><em>${count(all)} in ${hours} h</em></div>
    <div><span>Failed</span><b>${all ? ((bad / all) * 100).toFixed(1) : "0"}<span class="u">%</span></b><em>${count(bad)} of ${count(all)}</em></div>
    <div><span>Repaired</span><b>${all ? ((repaired / all) * 100).toFixed(0) : "0"}<span class="u">%</span></b><em>ran, but not as sent</em></div>
    <div><span>In doubt</span><b class=${doubts ? "st-in-doubt" : ""}>${doubts}</b><em>${doubts ? html`<a href="#/effects">settle them</a>` : "nothing to settle"}</em></div>
    <div><span>Abandoned threads</span><b class=${abandoned ? "st-timeout" : ""}>${abandoned}</b><em>${abandoned ? "cannot be stopped" : "every tool has ended"}</em></div></div>`;
}

/** @param {{series: any, stats: any}} props */
function Latency({ series, stats }) {
  const data = useMemo(() => series && [series.times, series.p50_ms, series.p95_ms, series.p99_ms], [series]);
  const slowest = (stats ?? []).map((/** @type {any} */ raw) => ({ name: raw.tool, p95: raw.slowest ? raw.p95_us / 1000 : null })).filter((/** @type {any} */ it) => it.p95 !== null).sort((/** @type {any} */ a, /** @type {any} */ b) => b.p95 - a.p95).slice(0, 6);
  return html`<section class="card"><header><h2>Latency</h2><span class="dim">percentiles, logarithmic</span><span class="key push"><span class="k50">p50</span><span class="k95">p95</span><span class="k99">p99</span></span></header><div class="chartbox">
    ${data && has(data.slice(1)) ? html`<${Chart} label="Latency over time: p50, p95 and p99. The table beside has the slowest tools." data=${data} options=${latencyOptions} />` : html`<p class="dim">No call in this time.</p>`}
    <table class="bare fixed"><thead><tr><th scope="col">Slowest, p95</th><th scope="col"><span class="sr">p95</span></th></tr></thead><tbody>${slowest.map((/** @type {any} */ it) => html`<tr><td><a href=${href("tools", it.name)}><code>${it.name}</code></a></td><td class="num"><${Took} ms=${it.p95} /></td></tr>`)}</tbody></table></div></section>`;
}

/** @param {any[][]} rows */
const has = (rows) => rows.some((row) => row?.some((it) => it !== null && it !== undefined && it !== 0));

/** @param {{series: any, hours: number}} props */
function Outcomes({ series, hours }) {
  const data = useMemo(() => series && stacked(series), [series]);
  const { outcomes: sums, repaired } = sumsOf(series);
  const shown = [...OUTCOMES].reverse().filter((name) => sums[name] || name === "ok" || name === "failed");
  return html`<section class="card"><header><h2>Outcomes</h2><span class="dim">calls every ${durationText(stepOf(hours) * 1000).replace(" 0 s", "")}</span></header><div class="chartbox">
    ${data && has(data.slice(1)) ? html`<${Chart} label="Calls over time by outcome. The table beside has the sums." data=${data} options=${outcomeOptions} />` : html`<p class="dim">No call in this time.</p>`}
    <table class="bare"><thead><tr><th scope="col">Outcome</th><th scope="col" class="num">Calls</th></tr></thead><tbody>${shown.map((name) => html`<tr><td><a href=${href("calls", "", { outcome: name, hours })}><${State} state=${name} /></a></td><td class="num">${count(sums[name] ?? 0)}</td></tr>`)}<tr><td><${State} state="repaired" word="repaired (line)" /></td><td class="num">${count(repaired)}</td></tr></tbody></table></div></section>`;
}

/** @param {number[]} values */
const most = (values) => Number(Math.max(...values).toPrecision(2));

/** @param {{series: any}} props */
function Occupancy({ series }) {
  const data = useMemo(() => series?.busy && [series.times, series.busy_workers, series.busy], [series]);
  return html`<section class="card"><header><h2>Occupancy</h2><span class="dim">calls at once, on average</span><span class="key push"><span class="k50">in workers</span><span class="k95">in all</span></span></header><div class="body">${data && has(data.slice(1)) ? html`<${Chart} label="How many calls were at work over time: at most ${most(data[1])} in workers, ${most(data[2])} in all" data=${data} options=${occupancyOptions} />` : html`<p class="dim">Nothing was busy in this time.</p>`}</div></section>`;
}

/** A button that restarts something, and what came of it. @param {{path: string, name: string, label: string}} props */
function Restart({ path, name, label }) {
  const [said, say] = useState("");
  const restart = () => {
    say("Restarting");
    post(path, {}).then(() => {
      say("");
      refreshHealth();
    }, (error) => say(words(error)));
  };
  return html`<button type="button" class="btn small" disabled=${said === "Restarting"} aria-label="${label} ${name}" onClick=${restart}>${said === "Restarting" ? said : label}</button>${said && said !== "Restarting" && html`<div class="st-failed prose" role="status">${said}</div>`}`;
}

/** @param {{servers: any[]}} props */
function Servers({ servers }) {
  if (!servers.length) return html`<section class="card"><header><h2>Servers</h2></header><div class="body"><p class="dim">The project uses no MCP server.</p></div></section>`;
  return html`<section class="card"><header><h2>Servers</h2><span class="dim">${plural(servers.length, "MCP server")}</span></header><div class="scroll-x" tabindex="0" role="region" aria-label="Servers"><table><thead><tr><th scope="col">Server</th><th scope="col">State</th><th scope="col">Transport</th><th scope="col" class="num">Connected</th><th scope="col"><span class="sr">Restart</span></th></tr></thead><tbody>${servers.map((server) => {
    const up = isUp(server.state);
    return html`<tr key=${server.name}><td class="nowrap"><b>${server.name}</b> <span class="dim">${plural(server.tools ?? 0, "tool")}</span></td><td><${State} state=${up ? "ok" : "failed"} word=${up ? "connected" : String(server.state).replaceAll("_", " ")} />${server.error && html`<div class="dim prose">${server.error}</div>`}${!up && server.tail && html`<pre class="code fold">${visible(server.tail)}</pre>`}</td><td class="soft nowrap">${server.transport}${server.protocol && html`<div class="dim">${server.protocol}</div>`}</td><td class="num">${plural(server.connections, "time")}</td><td class="num"><${Restart} path="/api/servers/${encodeURIComponent(server.name)}/restart" name=${server.name} label=${up ? "Restart" : "Try now"} /></td></tr>`;
  })}</tbody></table></div></section>`;
}

/** @param {{workers: any[]}} props */
function Workers({ workers }) {
  if (!workers.length) return html`<section class="card"><header><h2>Workers</h2></header><div class="body"><p class="dim">None runs. A script's first call starts one.</p></div></section>`;
  const scripts = new Set(workers.map((it) => it.script)).size;
  return html`<section class="card"><header><h2>Workers</h2><span class="dim">${count(workers.length)}, for ${plural(scripts, "script")}</span></header><div class="scroll-x" tabindex="0" role="region" aria-label="Workers"><table><thead><tr><th scope="col">Worker</th><th scope="col" class="num">pid</th><th scope="col">State</th><th scope="col">Walls</th><th scope="col" class="num">Calls</th><th scope="col" class="num">Memory</th><th scope="col" class="num">Age</th><th scope="col" class="num">Restarts</th><th scope="col"><span class="sr">Restart</span></th></tr></thead><tbody>${workers.map(
    (it) => html`<tr key=${it.id}><td><code>${it.script}</code></td><td class="num">${it.id.replace("pid ", "")}</td><td><${State} state=${it.state === "busy" ? "running" : "ok"} word=${it.state} /></td><td class="soft">${it.sandbox || "none"}</td><td class="num">${count(it.calls)}</td><td class="num">${it.memory ? html`${(it.memory / 1e6).toFixed(1)}<span class="u">MB</span>` : "–"}</td><td class="num">${durationText(Math.round(it.uptime) * 1000).replace(".00", "")}</td><td class="num">${count(it.restarts)}</td><td class="num"><${Restart} path="/api/workers/${encodeURIComponent(it.id)}/restart" name="${it.script} ${it.id}" label="Restart" /></td></tr>`,
  )}</tbody></table></div></section>`;
}

/** @param {{threads: {abandoned: Record<string, number>, lingering: number}}} props */
function Threads({ threads }) {
  const rows = Object.entries(threads.abandoned);
  return html`<section class="card"><header><h2>Abandoned threads</h2></header><div class="body"><p class="soft">${rows.length ? "A thread cannot be stopped. These tools still run, although their calls were answered at their deadlines." : "No tool of this process runs on after its deadline."}${threads.lingering > 0 && ` ${plural(threads.lingering, "cancelled call")} of async tools ${threads.lingering === 1 ? "has" : "have"} not ended yet.`}</p>
    ${rows.length > 0 && html`<table class="bare"><tbody>${rows.map(([tool, number]) => html`<tr><td><a href=${href("tools", tool)}><code>${tool}</code></a></td><td class="num">${plural(number, "thread")}</td></tr>`)}</tbody></table>`}</div></section>`;
}

/** @param {{journal: any}} props */
function Journal({ journal }) {
  if (!journal.path) return html`<section class="card"><header><h2>Journal</h2></header><div class="body"><p class="dim">No journal is kept: past calls are not shown. <code>[journal]</code> in toolrun.toml says so.</p></div></section>`;
  return html`<section class="card"><header><h2>Journal</h2>${journal.problem ? html`<${State} state="failed" word="cannot be written" />` : html`<${State} state="ok" word="written" />`}</header><div class="body"><dl class="meta"><dt>File</dt><dd><code class="break">${journal.path}</code></dd></dl></div></section>`;
}
