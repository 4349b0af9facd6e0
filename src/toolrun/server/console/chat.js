// @ts-check
/** The page Chat: talk to the configured model, and watch the calls that it makes. */
import { ApiError, events, get, words } from "./api.js";
import { brief, count, visible } from "./format.js";
import { Json } from "./json_view.js";
import { batch, html, signal, useEffect, useRef, useState } from "./lib.js";
import { onReturn } from "./live.js";
import { Command, Empty, Icon, Problem, Repairs, State, Took } from "./parts.js";
import { Approval } from "./effects.js";
import { href, route, go } from "./router.js";
import { Answer } from "./run.js";
import { tools, waiting } from "./state.js";

/**
 * @typedef {{kind: "text" | "thought" | "problem", text: string} | {kind: "call", id: string, tool: string, args: any, result: any}} Part
 * @typedef {{who: "you" | "model", parts: Part[]}} Said
 * @typedef {{id: string, said: Said[], busy: boolean, model: string, tokens: any}} Talk
 */

/** @type {import("@preact/signals").Signal<Talk>} */
const talk = signal({ id: "", said: [], busy: false, model: "", tokens: null });
/** @type {AbortController | null} */
let stop = null;

export function Page() {
  const { id } = route.value;
  const [models, setModels] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const read = () =>
      get("/api/models").then(
        (found) => {
          setModels(found);
          setProblem("");
        },
        (error) => setProblem(words(error)),
      );
    read();
    return onReturn(read);
  }, []);
  useEffect(() => {
    if (id && id !== talk.value.id) void open(id).catch((error) => setProblem(words(error)));
  }, [id]);
  const names = (models?.models ?? []).map((/** @type {any} */ it) => (typeof it === "string" ? it : (it.id)));
  const model = talk.value.model || models?.default || "";
  if (models && !model) return html`<${NoModel} models=${models} />`;
  return html`<div class="chat"><section class="talk" aria-label="Conversation"><h1 class="sr">Chat</h1>
      <${Lines} />
      <${Ask} model=${model} names=${names} problem=${problem} clear=${() => setProblem("")} />
    </section><${Aside} model=${model} /></div>`;
}

/** @param {{models: any}} props */
function NoModel({ models }) {
  const [reason = "", ...ways] = models.why.split("\n");
  return html`<div class="lost"><h1 class="sr">Chat</h1><${Empty} title="No model yet"><p>${reason}</p>
    ${ways.length > 0 && html`<ul class="notes">${ways.map((/** @type {string} */ way) => html`<li>${way.replace(/^- /, "")}</li>`)}</ul>`}<p>Then start the server again. The most common ways:</p>
    <ol><li><span>A model in the cloud</span><${Command} text="export ANTHROPIC_API_KEY=…" /></li><li><span>A model on this machine, in toolrun.toml</span><${Command} text=${'[model]\nuse = "ollama:qwen3:8b"'} /></li></ol><//></div>`;
}

/** @param {string} id */
async function open(id) {
  const stored = await get(`/api/conversations/${encodeURIComponent(id)}`);
  talk.value = { id, said: readMessages(stored.messages), busy: false, model: stored.model, tokens: null };
}

/** Stored messages, as they were said: those of tools are the answers to the calls before them. @param {any[]} messages @returns {Said[]} */
function readMessages(messages) {
  /** @type {Map<string, any>} */
  const answers = new Map();
  for (const { body } of messages) if (body?.type === "tool") answers.set(body.data?.tool_call_id, body.data);
  /** @type {Said[]} */
  const said = [];
  for (const { body } of messages) {
    const text = textOf(body?.data?.content);
    if (body?.type === "human") said.push({ who: "you", parts: [{ kind: "text", text }] });
    if (body?.type !== "ai") continue;
    const calls = (body.data?.tool_calls ?? []).map((/** @type {any} */ it) => ({ kind: "call", id: it.id, tool: it.name, args: it.args, result: stored(answers.get(it.id)) }));
    const parts = [...calls, ...(text ? [{ kind: "text", text }] : [])];
    const last = said.at(-1);
    if (last?.who === "model") last.parts.push(...parts);
    else said.push({ who: "model", parts });
  }
  return said;
}

/** @param {any} content of a message: text, or blocks of it */
const textOf = (content) => (typeof content === "string" ? content : (content ?? []).map((/** @type {any} */ it) => (typeof it === "string" ? it : (it.text ?? ""))).join(""));

/** @param {any} answer the message of a tool, if there is one */
function stored(answer) {
  const text = textOf(answer?.content);
  return answer?.status === "error" ? { success: false, error: text } : { success: true, result: text };
}

/** @param {(parts: Part[]) => Part[]} change of what the model says now */
function change(change) {
  const said = talk.value.said.slice();
  const last = said.at(-1);
  if (last?.who === "model") said[said.length - 1] = { who: "model", parts: change(last.parts) };
  else said.push({ who: "model", parts: change([]) });
  talk.value = { ...talk.value, said };
}

/** @param {Part[]} parts @param {"text" | "thought"} kind @param {string} text @returns {Part[]} */
function withText(parts, kind, text) {
  const last = parts.at(-1);
  return last?.kind === kind ? [...parts.slice(0, -1), { kind, text: last.text + text }] : [...parts, { kind, text }];
}

/** @param {string} message @param {string} model */
async function send(message, model) {
  stop = new AbortController();
  talk.value = { ...talk.value, model, busy: true, said: [...talk.value.said, { who: "you", parts: [{ kind: "text", text: message }] }] };
  const json = { message, model, ...(talk.value.id ? { conversation: talk.value.id } : {}) };
  try {
    for await (const { event, data } of events("/api/chat", { json, stop: stop.signal })) batch(() => follow(event, data));
  } catch (error) {
    const text = stop.signal.aborted ? "You have stopped it." : error instanceof ApiError ? error.message : `The answer was lost: ${words(error)}`;
    change((parts) => [...parts, { kind: "problem", text }]);
  } finally {
    talk.value = { ...talk.value, busy: false };
    stop = null;
  }
}

/** @param {string} event @param {any} data */
function follow(event, data) {
  if (data.conversation && !talk.value.id) {
    talk.value = { ...talk.value, id: data.conversation };
    go(href("chat", data.conversation), { replace: true });
  }
  if (event === "text" || event === "thought") change((parts) => withText(parts, event, data.text ?? ""));
  if (event === "call") change((parts) => [...parts, { kind: "call", id: data.id, tool: data.name, args: data.arguments, result: null }]);
  if (event === "result") change((parts) => withResult(parts, data));
  if (event === "error") change((parts) => [...parts, { kind: "problem", text: data.error }]);
  if (event === "end") talk.value = { ...talk.value, tokens: data };
}

/** @param {Part[]} parts @param {any} data @returns {Part[]} */
function withResult(parts, data) {
  return parts.map((it) => (it.kind === "call" && it.id === data.id && !it.result ? { ...it, result: data.envelope } : it));
}

function Lines() {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const { said, busy } = talk.value;
  useEffect(() => {
    const it = box.current;
    if (it && it.scrollHeight - it.scrollTop - it.clientHeight < 240) it.scrollTop = it.scrollHeight;
  }, [said]);
  return html`<div class="lines" tabindex="0" role="region" aria-label="What was said" ref=${box}>
    ${!said.length && html`<${Empty} title="Talk to the tools"><p>The model sees ${count(tools.value?.length ?? 0)} tools. What it calls appears here with what was sent, what ran and what came of it.</p><//>`}
    <ol aria-live="polite">${said.map((it, at) => html`<li key=${at} class="say ${it.who}"><b>${it.who}</b><div class="tcs">${it.parts.map((part, index) => html`<${SaidPart} key=${index} part=${part} />`)}${busy && at === said.length - 1 && html`<${State} state="running" word="answering" />`}</div></li>`)}</ol></div>`;
}

/** @param {{part: Part}} props */
function SaidPart({ part }) {
  if (part.kind === "problem") return html`<${Problem}>${part.text}<//>`;
  if (part.kind === "thought") return html`<details class="thought"><summary>Thought</summary><p class="soft text">${visible(part.text)}</p></details>`;
  if (part.kind === "text") return html`<p class="text">${visible(part.text)}</p>`;
  return html`<${Made} part=${part} />`;
}

/** A call that the model made. @param {{part: any}} props */
function Made({ part }) {
  const { result } = part;
  const asked = !result && waiting.value.find((it) => it.tool === part.tool);
  const id = result?.recorded_as;
  return html`<details class="tc" open=${Boolean(asked)}><summary><${Icon} name="chev" /><${State} state=${asked ? "waiting" : result ? (result.success ? "ok" : result.error_kind === "timeout" ? "timeout" : "failed") : "running"} /><code>${part.tool}</code><code class="dim cut grow">${brief(part.args)}</code><${Repairs} number=${(result?.repairs ?? []).length} />${result?.execution_time_ms !== undefined && html`<${Took} ms=${result.execution_time_ms} />`}</summary>
    <div class="body"><h3>Arguments</h3><${Json} value=${part.args ?? {}} label="Arguments" />
      ${(result?.repairs ?? []).length > 0 && html`<ul class="fixes">${result.repairs.map((/** @type {any} */ it) => html`<li><${State} state="repaired" hidden=${true} /><span><code>${it.path || "arguments"}</code></span><span class="why">${it.reason}</span></li>`)}</ul>`}
      ${asked && html`<${Approval} row=${asked} isOpen=${true} />`}
      ${result && html`<${Answer} value=${result.result} error=${result.error} />`}
      ${id && html`<a href=${href("calls", id)}>Open the call</a>`}</div></details>
    ${result?.error && html`<${Problem}>${visible(result.error)}<//>`}`;
}

/** @param {{model: string, names: string[], problem: string, clear: () => void}} props */
function Ask({ model, names, problem, clear }) {
  const [text, setText] = useState("");
  const { busy, id } = talk.value;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!text.trim() || busy) return;
    clear();
    setText("");
    void send(text.trim(), model);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const fresh = () => {
    stop?.abort();
    talk.value = { id: "", said: [], busy: false, model: talk.value.model, tokens: null };
    go("#/chat");
  };
  const pick = (/** @type {any} */ event) => {
    talk.value = { ...talk.value, model: event.target.value };
  };
  return html`<div class="ask"><form onSubmit=${submit}>${problem && html`<${Problem}>${problem}<//>`}
    <div class="row"><textarea class="input area grow" rows=${Math.min(6, text.split("\n").length)} aria-label="Message" placeholder="Say what you want" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${key}></textarea>
      ${busy ? html`<button type="button" class="btn" onClick=${() => stop?.abort()}>Stop</button>` : html`<button type="submit" class="btn primary" disabled=${!text.trim()}>Send</button>`}</div>
    <div class="row dim">${names.length > 1 ? html`<select class="input pick" aria-label="Model" value=${model} onChange=${pick}>${names.map((name) => html`<option value=${name}>${name}</option>`)}</select>` : html`<span>${model}</span>`}<span class="push not-phone">${id ? "The conversation is kept, also if the server ends." : ""}</span><button type="button" class="btn small quiet" onClick=${fresh}>New</button></div></form></div>`;
}

/** @param {{model: string}} props */
function Aside({ model }) {
  const [stored, setStored] = useState(/** @type {any[]} */ ([]));
  const { id, said, busy, tokens } = talk.value;
  useEffect(() => {
    get("/api/conversations").then((found) => setStored(found.conversations ?? []), () => undefined);
  }, [id, busy]);
  const calls = said.flatMap((it) => it.parts).filter((part) => part.kind === "call").length;
  return html`<aside class="aside" aria-label="This conversation">
    <section class="sect"><h2>This conversation</h2><dl class="meta"><dt>Model</dt><dd>${model}</dd>${id && html`<dt>Name</dt><dd><code>${id}</code></dd>`}<dt>Calls</dt><dd>${count(calls)}</dd>${tokens && html`<dt>Tokens</dt><dd>${count(tokens.input_tokens ?? 0)} in, ${count(tokens.output_tokens ?? 0)} out</dd>`}</dl>
      ${id && html`<a href=${href("calls", "", { conversation: id })}>Its calls in the list</a>`}</section>
    ${stored.length > 0 && html`<section class="sect"><h2>Kept conversations</h2><ul class="plain">${stored.slice(0, 20).map((it) => html`<li key=${it.id}><a href=${href("chat", it.id)} aria-current=${it.id === id ? "true" : undefined}>${visible(it.first_question || it.id)}</a> <span class="dim">${it.model ?? ""}</span></li>`)}</ul></section>`}
  </aside>`;
}
