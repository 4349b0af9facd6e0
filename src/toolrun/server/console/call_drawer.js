// @ts-check
/** One call in full: when what happened, what was sent and what ran, the answer, the log, the calls that it made. */
import { ApiError, get, post, words } from "./api.js";
import { durationText, inline, visible } from "./format.js";
import { Json } from "./json_view.js";
import { useKeys } from "./keys.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { on, onReturn } from "./live.js";
import { Copy, Icon, Note, Problem, Repairs, State, Tabs, Time, Took } from "./parts.js";
import { href } from "./router.js";
import { KINDS, readRow } from "./rows.js";
import { Answer } from "./run.js";
import { running } from "./state.js";
import { Timeline } from "./timeline.js";

/** @param {{id: string, close: () => void, link: (id: string) => string}} props */
export function Drawer({ id, close, link }) {
  const [raw, setRaw] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const pane = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    const read = () =>
      get(`/api/calls/${encodeURIComponent(id)}`, {}, stop.signal).then(
        (found) => {
          setRaw(found);
          setProblem("");
        },
        (error) => stop.signal.aborted || setProblem(words(error)),
      );
    read();
    const ends = [on("call", (row) => row.id === id && read()), onReturn(read)];
    return () => {
      stop.abort();
      for (const end of ends) end();
    };
  }, [id]);
  return html`<aside class="drawer" aria-label="Call ${id}" ref=${pane}>
    ${raw ? html`<${Whole} raw=${raw} close=${close} link=${link} />` : html`<header><div class="row"><h2 class="title">${id}</h2><${Close} close=${close} /></div></header>`}
    ${problem && html`<div class="in"><${Problem}>${problem}<//></div>`}
  </aside>`;
}

/** A call that runs, and that the journal need not have yet. @param {{id: string, close: () => void, link: (id: string) => string}} props */
export function RunningDrawer({ id, close, link }) {
  const last = useRef(/** @type {any} */ (null));
  const call = running.value.find((it) => it.id === id);
  last.current = call ?? last.current;
  const it = last.current;
  if (!it) return html`<aside class="drawer" aria-label="Call ${id}"><header><div class="row"><h2 class="title">${id}</h2><${Close} close=${close} /></div></header><div class="in"><p>It does not run any more. The list has what became of it.</p></div></aside>`;
  return html`<aside class="drawer" aria-label="Call ${id}"><header><div class="row"><h2 class="title cut">${it.tool}</h2><span class="push row">${call && html`<${Stop} run=${id} />`}</span><${Close} close=${close} /></div>
      <div class="row wrap">${call ? html`<${State} state=${it.state} />` : html`<span class="soft">It has ended: the list has its answer.</span>`}<span class="dim"><${Time} at=${it.started} exact=${true} /></span><code class="dim">${id}</code></div></header>
    <div class="in"><section class="sect"><h2>Now</h2><dl class="meta"><dt>Deadline</dt><dd>${it.deadline ? html`<${Time} at=${it.deadline} />` : "none yet"}</dd>${it.phase && html`<dt>Waits for</dt><dd>${it.phase}</dd>`}
      ${it.progress && html`<dt>Progress</dt><dd>${it.progress.progress}${it.progress.total && ` of ${it.progress.total}`} ${it.progress.message}</dd>`}${it.parent && html`<dt>Part of</dt><dd><a href=${link(it.parent)}>${it.parent}</a></dd>`}${it.recorded_as && html`<dt>Recorded as</dt><dd><a href=${link(it.recorded_as)}>${it.recorded_as}</a></dd>`}</dl></section></div></aside>`;
}

/** @param {{run: string}} props */
function Stop({ run }) {
  const [said, say] = useState("");
  const cancel = () => post(`/api/calls/${run}/cancel`, {}).then(() => say("Cancelling"), (error) => say(words(error)));
  return html`<button type="button" class="btn small" disabled=${said === "Cancelling"} onClick=${cancel}>${said || "Cancel"}</button>`;
}

/** @param {{close: () => void}} props */
const Close = ({ close }) => html`<button type="button" class="btn small quiet push" aria-label="Close" onClick=${close}><${Icon} name="close" /></button>`;

/** @param {{raw: any, close: () => void, link: (id: string) => string}} props */
function Whole({ raw, close, link }) {
  const row = readRow(raw);
  const isRunning = row.outcome === "running" || row.outcome === "queued";
  const { sent } = raw;
  const [again, notice] = useReplay(row.id, row.tool, link);
  return html`<header>
      <div class="row"><h2 class="title cut">${row.tool}</h2><span class="push row">
        ${isRunning ? html`<${Cancel} id=${row.id} />` : again}
        <a class="btn small not-phone" href=${href("try", row.tool, { arguments: typeof sent === "string" ? sent : JSON.stringify(sent ?? {}) })}><${Icon} name="edit" />Edit and run</a></span><${Close} close=${close} /></div>
      <div class="row wrap"><${State} state=${row.outcome} word=${row.word} /><${Repairs} number=${raw.repairs.length} words=${true} />${!isRunning && html`<${Took} ms=${row.ms} />`}<span class="dim"><${Time} at=${row.at} exact=${true} /></span><code class="dim">${row.id}</code></div>
      ${notice}
    </header>
    <div class="in">
      ${row.outcome === "in_doubt" && html`<${Note} kind="waiting" icon="in-doubt"><b>It is not known whether it happened.</b> <a href="#/effects">Settle it</a><//>`}
      <${Timeline} raw=${raw} row=${row} />
      ${raw.log.length > 0 && html`<${Log} lines=${raw.log} />`}
      <${Arguments} raw=${raw} sent=${sent} />
      <${Outcome} raw=${raw} />
      ${raw.children.length > 0 && html`<section class="sect"><h2>Child calls</h2><table class="bare"><tbody>${raw.children.map((/** @type {any} */ child) => html`<${Child} key=${child.id} child=${child} link=${link} />`)}</tbody></table></section>`}
      <${About} raw=${raw} link=${link} />
    </div>`;
}

/** What the tool logged. @param {{lines: {after_us: number, level: string, text: string}[]}} props */
function Log({ lines }) {
  return html`<section class="sect"><h2>Log</h2><ul class="logs" aria-label="Log">${lines.map(
    (it, at) => html`<li key=${at}><time>+${durationText(it.after_us / 1000)}</time><span class="text">${it.level !== "info" && html`<b>${it.level}</b> `}${visible(it.text)}</span></li>`,
  )}</ul></section>`;
}

/** @param {{id: string}} props */
function Cancel({ id }) {
  const call = running.value.find((it) => it.recorded_as === id);
  return call ? html`<${Stop} run=${call.id} />` : html`<span class="dim">another program runs it</span>`;
}

/**
 * Run a call again: a button, and what came of it.
 * @param {string} id @param {string} tool @param {(id: string) => string} link @returns {[unknown, unknown]}
 */
function useReplay(id, tool, link) {
  const [said, say] = useState(/** @type {{state: "" | "running" | "asks" | "same" | "different" | "problem", text: string}} */ ({ state: "", text: "" }));
  const replay = async (/** @type {boolean} */ confirm) => {
    say({ state: "running", text: "" });
    try {
      const answer = await post(`/api/calls/${encodeURIComponent(id)}/replay`, confirm ? { confirm: true } : {});
      say({ state: answer.same ? "same" : "different", text: answer.after.id });
    } catch (error) {
      say({ state: error instanceof ApiError && error.status === 409 && !confirm ? "asks" : "problem", text: words(error) });
    }
  };
  useKeys({ r: () => void replay(false) });
  const button = html`<button type="button" class="btn small" disabled=${said.state === "running"} onClick=${() => replay(false)}><${Icon} name="again" />${said.state === "running" ? "Replaying" : "Replay"}</button>`;
  if (said.state === "same" || said.state === "different") {
    const what = said.state === "same" ? "with the same answer" : "with another answer";
    return [button, html`<p role="status">It ran again as <a href=${link(said.text)}>${said.text}</a>, ${what}.</p>`];
  }
  if (said.state !== "asks" && said.state !== "problem") return [button, null];
  return [
    button,
    html`<div class="note waiting" role="group" aria-label="Replay ${tool}"><div class="grow sect"><p role="status" class="prose">${said.text}</p>
      <div class="row">${said.state === "asks" && html`<button type="button" class="btn small" onClick=${() => replay(true)}>Run it again</button>`}<button type="button" class="btn small quiet push" onClick=${() => say({ state: "", text: "" })}>Leave it</button></div></div></div>`,
  ];
}

/** @param {{raw: any, sent: any}} props */
function Arguments({ raw, sent }) {
  const ran = raw.arguments;
  const repairs = raw.repairs ?? [];
  const dropped = new Set(raw.dropped ?? []);
  if (!isObject(sent) || !isObject(ran)) {
    return html`<section class="sect"><h2>Arguments</h2><h3>As sent</h3><${Json} value=${sent ?? null} label="As sent" />${isObject(ran) && html`<h3>As run</h3><${Json} value=${ran} label="As run" />`}<${Withheld} raw=${raw} /></section>`;
  }
  const rows = pairs(sent, ran, repairs, dropped);
  if (!rows.length) return html`<section class="sect"><h2>Arguments</h2><p class="dim">None.</p></section>`;
  return html`<section class="sect"><div class="row"><h2>Arguments</h2><span class="push"><${Copy} text=${() => JSON.stringify(ran, null, 2)} /></span></div>
    <table class="diff bare"><thead><tr><th scope="col">As sent</th><th scope="col">As run</th><th scope="col">Why</th></tr></thead><tbody>${rows.map(
      (row) => html`<tr class=${row.state === "repaired" ? "ch" : ""}><td>${row.sent === undefined ? "–" : row.state === "refused" ? html`<del>${row.sent}</del>` : row.sent}</td><td>${row.ran ?? "–"}</td>
        <td class="why">${row.state ? html`<span class="stx st-${row.state}"><${Icon} name=${row.state} /><span>${row.why}</span></span>` : html`<span class="dim">unchanged</span>`}</td></tr>`,
    )}</tbody></table><${Withheld} raw=${raw} /></section>`;
}

/** @param {any} value */
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** One row per argument. @param {any} sent @param {any} ran @param {any[]} repairs @param {Set<string>} dropped */
function pairs(sent, ran, repairs, dropped) {
  /** The name under which an argument ran. @type {Map<string, string>} */
  const renamed = new Map();
  /** @type {Map<string, string[]>} */
  const whys = new Map();
  for (const it of repairs) {
    const { before, after } = it;
    const name = String(it.path ?? "").split(/[.[]/)[0] ?? "";
    if (typeof before === "string" && typeof after === "string" && Object.hasOwn(sent, before) && Object.hasOwn(ran, after) && !Object.hasOwn(ran, before)) renamed.set(before, after);
    const key = typeof after === "string" && renamed.has(before) ? after : (renamed.get(name) ?? name);
    whys.set(key, [...(whys.get(key) ?? []), it.reason]);
  }
  const names = [...new Set([...Object.keys(sent).map((name) => renamed.get(name) ?? name), ...Object.keys(ran)])];
  const back = new Map([...renamed].map(([from, to]) => [to, from]));
  return names.map((name) => {
    const from = back.get(name) ?? name;
    const was = Object.hasOwn(sent, from) ? `${from}: ${inline(sent[from])}` : undefined;
    const is = Object.hasOwn(ran, name) ? `${name}: ${inline(ran[name])}` : undefined;
    if (is === undefined && (dropped.has(from) || dropped.has(name))) return { sent: was, ran: is, state: "refused", why: "dropped, not a parameter" };
    if (was === is) return { sent: was, ran: is, state: "", why: "" };
    const why = whys.get(name)?.join(", ") || (was === undefined ? "added" : is === undefined ? "not passed on" : (repairs[0]?.reason ?? "changed"));
    return { sent: was, ran: is, state: "repaired", why };
  });
}

/** @param {{raw: any}} props */
const Withheld = ({ raw }) => (raw.withheld ? html`<p class="help">${raw.withheld === "hidden" ? "Secrets in the arguments are hidden" : "The arguments are cut"}: they cannot be run again as they stand here.</p>` : null);

/** @param {{raw: any}} props */
function Outcome({ raw }) {
  if (raw.result === null && !raw.error && !raw.error_kind) return null;
  const envelope = { success: !raw.error && !raw.error_kind, ...(raw.error ? { error: raw.error } : { result: raw.result }), error_kind: raw.error_kind ?? null, side_effects: raw.side_effects ?? null };
  return html`<section class="sect"><h2>Result</h2>
    ${raw.error_kind && html`<p class="soft">${KINDS[raw.error_kind] ?? raw.error_kind}</p>`}
    <${Tabs} label="Result and record" tabs=${[
      { id: "answer", name: raw.error ? "Error" : "Answer", panel: () => html`<${Answer} value=${raw.result} error=${raw.error} />` },
      { id: "envelope", name: "Envelope", panel: () => html`<${Json} value=${envelope} label="Envelope" />` },
      { id: "record", name: "Record", panel: () => html`<${Json} value=${raw} label="Everything that the journal has" />` },
    ]} /></section>`;
}

/** @param {{child: any, link: (id: string) => string}} props */
function Child({ child, link }) {
  const row = readRow(child);
  return html`<tr><td class="nowrap"><${State} state=${row.outcome} /></td><td><a href=${link(row.id)}><code>${row.tool}</code></a></td><td class="num"><${Took} ms=${row.ms} /></td></tr>`;
}

/** @param {{raw: any, link: (id: string) => string}} props */
function About({ raw, link }) {
  const facts = [
    ["Asked by", raw.consumer],
    ["Conversation", raw.conversation && html`<a href=${href("calls", "", { conversation: raw.conversation })}>${raw.conversation}</a>`],
    ["Part of", raw.parent && html`<a href=${link(raw.parent)}>${raw.parent}</a>`],
    ["Source", raw.source],
    ["Worker", raw.worker],
    ["Effects", raw.effects ?? "not declared"],
    ["Side effects", raw.side_effects],
    ["Sent as", raw.idempotency_key && html`<code>${raw.idempotency_key}</code>`],
    ["Attempt", raw.attempt > 1 && raw.attempt],
    ["Caller's id", raw.caller_id && html`<code>${raw.caller_id}</code>`],
    ["Settled", raw.settlement && [html`<${Time} at=${raw.settlement.at} />`, ` ${raw.settlement.settled_as.replace("_", " ")}`, raw.settlement.by && ` by ${raw.settlement.by.replace("person:", "")}`]],
    ["Approval", raw.approval && (typeof raw.approval === "object" ? [raw.approval.state, raw.approval.answered_by && ` by ${raw.approval.answered_by}`] : `request ${raw.approval}`)],
  ].filter(([, value]) => value);
  return html`<section class="sect"><h2>Where and who</h2><dl class="meta">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl></section>`;
}
