// @ts-check
/** The page Try: a form and the JSON in step, the dry run while one types, and the runs of this window. */
import { ApiError, get, post, words } from "./api.js";
import { asCommand, asCurl, asPython } from "./copy_as.js";
import { parseJson } from "./exact_json.js";
import { inline } from "./format.js";
import { useKeys } from "./keys.js";
import { batch, html, signal, useEffect, useRef, useState } from "./lib.js";
import { onReturn } from "./live.js";
import { Copy, Icon, Note, Problem, State, Tabs } from "./parts.js";
import { go, href, route } from "./router.js";
import { Run, runs, start } from "./run.js";
import { Form } from "./schema_form.js";
import { tools } from "./state.js";

/** Milliseconds of silence before what was typed is checked. */
const PAUSE = 180;

/** What was typed for each tool, as long as the page is open. @type {import("@preact/signals").Signal<Map<string, string>>} */
const drafts = signal(new Map());

export function Page() {
  const { id } = route.value;
  const name = id || (tools.value?.[0]?.name ?? "");
  if (tools.value === null) return html`<p class="lost dim">Reading the tools</p>`;
  if (!name) return html`<div class="lost"><h1 class="sr">Try</h1><p>There are no tools yet. <a href="#/tools">How to get some</a></p></div>`;
  return html`<${Bench} key=${name} name=${name} />`;
}

/** @param {{name: string}} props */
function Bench({ name }) {
  const [tool, setTool] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [timeout, setTimeoutText] = useState("");
  const [check, setCheck] = useState(/** @type {any} */ (null));
  const text = textOf(name, tool);
  const parsed = parse(text);
  useEffect(() => {
    const stop = new AbortController();
    const read = () =>
      get(`/api/tools/${encodeURIComponent(name)}`, {}, stop.signal).then(
        (found) => {
          setTool(found);
          setProblem("");
        },
        (error) => stop.signal.aborted || setProblem(words(error)),
      );
    read();
    const end = onReturn(read);
    return () => {
      stop.abort();
      end();
    };
  }, [name]);
  const type = (/** @type {string} */ typed) =>
    batch(() => {
      drafts.value = new Map(drafts.peek()).set(name, typed);
      if (route.peek().query.has("arguments")) go(href("try", name), { replace: true });
    });
  const seconds = Number(timeout) > 0 ? Number(timeout) : null;
  const run = (/** @type {string | null} */ key = null) => {
    if (!tool) return;
    const typed = textOf(name, tool); // a key may come before what was typed last is drawn
    void start(name, parse(typed).value ?? typed, { timeout: seconds, key });
  };
  useKeys({ "Mod+Enter": () => run() });
  if (problem) return html`<${Head} name=${name} tool=${null} /><div class="lost"><${Problem}>${problem}<//></div>`;
  if (!tool) return html`<${Head} name=${name} tool=${null} />`;
  return html`<${Head} name=${name} tool=${tool} fill=${type} />
    <div class="try">
      <section aria-label="Arguments as a form"><div class="row"><h2>Arguments</h2><span class="dim push">in step with the JSON</span></div>
        ${isObject(parsed.value) ? html`<${Form} schema=${tool.schema} value=${parsed.value} change=${(/** @type {any} */ value) => type(JSON.stringify(value, null, 2))} />` : html`<${Note}>The form waits until the JSON is an object again.<//>`}
        <div class="field"><label for="deadline"><span>Deadline</span> <small>seconds, ${tool.timeout === null ? "the tool has none" : `the tool's own is ${tool.timeout}`}</small></label>
          <input class="input" id="deadline" inputmode="decimal" value=${timeout} placeholder=${tool.timeout ?? ""} onInput=${(/** @type {any} */ event) => setTimeoutText(event.target.value)} /></div>
      </section>
      <section aria-label="Arguments as JSON"><div class="row"><h2>JSON</h2><span class="push"></span>
          <button type="button" class="btn small quiet" disabled=${parsed.value === undefined} onClick=${() => type(JSON.stringify(parsed.value, null, 2))}>Format</button>
          <button type="button" class="btn small quiet" onClick=${() => paste(type)}>Paste a model's call</button></div>
        <${Editor} text=${text} type=${type} />
        ${parsed.problem && html`<p class="help bad" role="status">${parsed.problem}</p>`}
        ${isObject(parsed.value) && html`<${CopyAs} name=${name} args=${parsed.value} dropped=${check?.dropped ?? []} />`}</section>
      <${DryRun} name=${name} tool=${tool} text=${text} value=${parsed.value} run=${run} check=${check} setCheck=${setCheck} />
    </div>
    <${Runs} />`;
}

/**
 * The arguments as text: those of the address until somebody edits them, then what was typed, else what a form begins with.
 * Nothing but an edit changes it, so that no answer of the server can overwrite one.
 * @param {string} name @param {any} tool
 */
function textOf(name, tool) {
  const given = route.value.query.get("arguments");
  return given === null ? (drafts.value.get(name) ?? JSON.stringify(beginning(tool?.schema), null, 2)) : pretty(given);
}

/** @param {any} value */
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** @param {string} text @returns {{value?: any, problem: string}} */
function parse(text) {
  if (!text.trim()) return { value: {}, problem: "" };
  try {
    return { value: parseJson(text), problem: "" };
  } catch (error) {
    return { problem: `This is no JSON: ${words(error)}. It can be sent as it is: toolrun reads what models write.` };
  }
}

/** @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(parseJson(text), null, 2);
  } catch {
    return text;
  }
}

/** What a form begins with: the parameters that have to be there, as far as the schema says what they are. @param {any} schema */
function beginning(schema) {
  const found = Object.entries(schema?.properties ?? {}).filter(([name, it]) => (schema.required ?? []).includes(name) && it && typeof it === "object" && "default" in /** @type {any} */ (it));
  return Object.fromEntries(found.map(([name, it]) => [name, /** @type {any} */ (it).default]));
}

/** The arguments of a call, as a model of any provider writes it. @param {(text: string) => void} type */
async function paste(type) {
  let text = "";
  try {
    text = await navigator.clipboard.readText();
  } catch {
    document.getElementById("json")?.focus(); // the browser does not let pages read the clipboard: Ctrl V does
  }
  if (text.trim()) type(argumentsOf(text));
}

/** @param {string} text @returns {string} */
export function argumentsOf(text) {
  try {
    const found = parseJson(text);
    const inside = found.function?.arguments ?? found.arguments ?? found.input ?? found.args ?? found.parameters ?? found;
    return pretty(typeof inside === "string" ? inside : JSON.stringify(inside));
  } catch {
    return text;
  }
}

/** @param {{name: string, tool: any, fill?: (text: string) => void}} props */
function Head({ name, tool, fill }) {
  const [said, say] = useState("");
  const last = async () => {
    const found = (await get("/api/calls", { tool: name, limit: 1 })).calls[0];
    if (!found) return say("It was never called");
    const call = await get(`/api/calls/${encodeURIComponent(found.id)}`);
    return fill?.(typeof call.sent === "string" ? call.sent : JSON.stringify(call.sent ?? {}, null, 2));
  };
  return html`<div class="head"><h1>Try</h1>
    <select class="input pick" aria-label="Tool" data-filter value=${name} onChange=${(/** @type {any} */ event) => go(href("try", event.target.value))}>
      ${!(tools.value ?? []).some((it) => it.name === name) && html`<option value=${name}>${name}</option>`}
      ${(tools.value ?? []).map((it) => html`<option value=${it.name}>${it.name}</option>`)}</select>
    <span class="soft not-phone cut">${tool?.description.split("\n")[0] ?? ""}</span>
    <span class="push row">${fill && html`<button type="button" class="btn quiet" onClick=${() => last().catch((error) => say(words(error)))} aria-live="polite">${said || "Fill from last call"}</button>`}<a class="btn quiet" href=${href("tools", name)}>Schema</a></span></div>`;
}

/** A text area with numbers of lines. @param {{text: string, type: (text: string) => void}} props */
function Editor({ text, type }) {
  const gutter = useRef(/** @type {HTMLElement | null} */ (null));
  const lines = text.split("\n").length;
  const scrolled = (/** @type {any} */ event) => {
    if (gutter.current) gutter.current.scrollTop = event.target.scrollTop;
  };
  return html`<div class="editor"><pre class="gutter" aria-hidden="true" ref=${gutter}>${Array.from({ length: lines }, (_, at) => at + 1).join("\n")}</pre>
    <textarea class="code" rows=${Math.min(Math.max(lines + 1, 8), 22)} wrap="off" spellcheck=${false} id="json" aria-label="Arguments as JSON" value=${text} onScroll=${scrolled} onInput=${(/** @type {any} */ event) => type(event.target.value)}></textarea></div>`;
}

/** @param {{name: string, args: any, dropped: string[]}} props */
function CopyAs({ name, args, dropped }) {
  const known = Object.fromEntries(Object.entries(args).filter(([part]) => !dropped.includes(part))); // the command line would refuse what is dropped here
  const ways = { cli: ["CLI", asCommand(name, known)], python: ["Python", asPython(name, known)], curl: ["curl", asCurl(name, known, location.origin)] };
  const tabs = Object.entries(ways).map(([id, [title = "", text = ""]]) => ({
    id,
    name: title,
    panel: () => html`<div class="sect"><pre class="code fold" tabindex="0" role="region" aria-label=${title}>${text}</pre><div><${Copy} text=${text} /></div></div>`,
  }));
  return html`<div class="sect"><h2>Copy as</h2><${Tabs} label="Copy as" tabs=${tabs} /></div>`;
}

/** @param {{name: string, tool: any, text: string, value: any, run: (key?: string | null) => void, check: any, setCheck: (check: any) => void}} props */
function DryRun({ name, tool, text, value, run, check, setCheck }) {
  const [key, setKey] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    const ask = () => {
      post(`/api/tools/${encodeURIComponent(name)}/check`, { arguments: isObject(value) ? value : text }, stop.signal).then(setCheck, (error) => {
        if (!stop.signal.aborted) setCheck({ outcome: "unknown", problem: error instanceof ApiError ? error.message : words(error) });
      });
    };
    const timer = setTimeout(ask, PAUSE);
    const end = onReturn(ask);
    return () => {
      clearTimeout(timer);
      stop.abort();
      end();
    };
  }, [name, text]);
  const acts = tool && tool.effects !== "none" && tool.effects !== null;
  const repairs = check?.repairs ?? [];
  const dropped = check?.dropped ?? [];
  const isRefused = check?.outcome === "refused";
  const state = !check ? null : isRefused ? ["refused", "would be refused"] : check.outcome === "unknown" ? ["failed", "not checked"] : repairs.length || dropped.length ? ["repaired", "would run, repaired"] : ["ok", "would run"];
  return html`<section aria-label="Dry run" class="dry"><div class="row"><h2>Dry run</h2><span class="dim cut">as you type, nothing is run</span><span class="push" role="status">${state && html`<${State} state=${state[0]} word=${state[1]} />`}</span></div>
    ${check?.problem && html`<${Problem}>${check.problem}<//>`}
    ${check && html`<${Fixes} check=${check} />`}
    ${isRefused ? html`<div class="sect"><h3>What a model would be told</h3><pre class="code fold" tabindex="0" role="region" aria-label="What a model would be told">${check.message}</pre></div>` : check?.arguments !== undefined && html`<div class="sect"><h3>Would be sent to ${tool?.source?.name ?? name}</h3><pre class="code fold" tabindex="0" role="region" aria-label="Would be sent">${inline(check.arguments)}</pre></div>`}
    ${check?.approval?.action === "ask" && html`<${Note} kind="waiting" icon="waiting"><b>A person is asked first.</b> ${check.approval.reason} The call waits on the page <a href="#/effects">Effects</a> until somebody answers.<//>`}
    ${check?.approval?.action === "deny" && html`<${Note} kind="failed" icon="refused"><b>The rules refuse it.</b> ${check.approval.reason}<//>`}
    ${acts && html`<${Note} kind="waiting"><b>This tool acts.</b> ${tool.effects === "once" ? "A second call acts a second time; give a key to make a repeat safe." : "To repeat it does no harm."}<//>`}
    <div class="runbar"><button type="button" class="btn primary" onClick=${() => run()}><${Icon} name="try" />Run <kbd class="not-phone">${/Mac/.test(navigator.platform) ? "⌘↵" : "Ctrl ↵"}</kbd></button>
      <input class="input key" aria-label="Key" placeholder="Key" value=${key} onInput=${(/** @type {any} */ event) => setKey(event.target.value)} />
      <button type="button" class="btn" disabled=${!key.trim()} onClick=${() => run(key.trim())}>Run with the key</button>
    </div></section>`;
}

/** @param {{check: any}} props */
function Fixes({ check }) {
  const repairs = check.repairs ?? [];
  const rows = [
    ...repairs.map((/** @type {any} */ it) => [
      "repaired",
      html`<code>${it.path || "arguments"}</code>: <code>${inline(it.before)}</code><span class="arrow">→</span><span class="sr">becomes</span><code>${inline(it.after)}</code>`,
      it.reason,
    ]),
    ...(check.dropped ?? []).map((/** @type {string} */ name) => ["refused", html`<code>${name}</code> would be dropped`, "not a parameter of this tool"]),
    ...(check.problems ?? []).map((/** @type {any} */ it) => ["failed", html`<code>${it.path || "arguments"}</code>`, it.message]),
  ];
  if (!rows.length) return check.outcome === "refused" || check.outcome === "unknown" ? null : html`<p class="soft">It would run exactly as it stands there.</p>`;
  return html`<ul class="fixes">${rows.map(([state, what, why], at) => html`<li key=${at}><${State} state=${state} word=${state === "repaired" ? "repaired" : "problem"} hidden=${true} /><span class="grow">${what}</span><span class="why">${why}</span></li>`)}</ul>`;
}

function Runs() {
  return html`<div class="runs"><div class="row"><h2>Runs</h2><span class="dim">in this window</span></div>
    ${runs.value.length ? runs.value.map((run) => html`<${Run} key=${run.number} run=${run} />`) : html`<p class="dim">What you run here appears below, with its progress and a button that cancels it.</p>`}</div>`;
}

