// @ts-check
/** The page Effects: what waits for a person, and what may have happened. Every entry opens; no button has the focus at first. */
import { get, post, remove, words } from "./api.js";
import { parseJson } from "./exact_json.js";
import { ago, brief, seconds, span, visible } from "./format.js";
import { Json } from "./json_view.js";
import { html, useEffect, useState } from "./lib.js";
import { Empty, Icon, NoJournal, Problem, State, Text, Time } from "./parts.js";
import { href } from "./router.js";
import { readRow } from "./rows.js";
import { approvals, effects, held, isRecorded, refreshApprovals, refreshEffects, refreshHeld, refreshTools, waiting } from "./state.js";

/** Up to so many entries are open from the beginning. */
const MAX_OPEN = 5;

export function Page() {
  const doubts = effects.value ?? [];
  const changes = held.value ?? [];
  const asked = waiting.value;
  const nothing = effects.value !== null && !doubts.length && !changes.length && !asked.length;
  return html`<div class="head"><h1>Effects</h1><span class="soft cut">What the tools may do next, and what they may have done.</span>
      <span class="push row">${asked.length > 0 && html`<span class="badge waiting"><${Icon} name="waiting" />${asked.length} waiting</span>`}${doubts.length > 0 && html`<span class="badge in-doubt"><${Icon} name="in-doubt" />${doubts.length} in doubt</span>`}${changes.length > 0 && html`<span class="badge waiting"><${Icon} name="held" />${changes.length} held</span>`}</span></div>
    <div class="effects"><div class="stack">
      ${!isRecorded.value && html`<${NoJournal} />`}
      ${nothing && html`<${Empty} title="Nothing waits for you"><p>Requests for approval, calls that may have acted without anybody knowing, and definitions that a server has changed appear here by themselves.</p><p class="dim">Which tools ask first is said by <code>[approval]</code> in toolrun.toml.</p><//>`}
      ${asked.length > 0 && html`<section class="sect"><div class="row"><h2>Waiting for approval</h2><span class="dim">${asked.length}, nothing has run</span></div>${asked.map((row) => html`<${Approval} key=${row.id} row=${row} isOpen=${asked.length <= MAX_OPEN} />`)}</section>`}
      ${doubts.length > 0 && html`<section class="sect"><div class="row"><h2>In doubt</h2><span class="dim">${doubts.length}, started and never answered</span></div>${doubts.map((effect) => html`<${Doubt} key=${effect.call.id} effect=${effect} isOpen=${doubts.length <= MAX_OPEN} />`)}</section>`}
      ${changes.length > 0 && html`<section class="sect"><div class="row"><h2>Definitions that changed</h2><span class="dim">${changes.length}, what is held is not offered to models until somebody accepts it</span></div>${changes.map((change) => html`<${Change} key="${change.server}/${change.tool}" change=${change} isOpen=${changes.length <= MAX_OPEN} />`)}</section>`}
    </div><${Answers} /></div>`;
}

/** An entry: one line, that opens. @param {{state: string, word?: string, title: string, about: unknown, right: unknown, isOpen: boolean, children?: unknown}} props */
function Entry({ state, word, title, about, right, isOpen, children }) {
  const [begins] = useState(isOpen); // what somebody reads does not close when more arrives
  return html`<details class="eff" open=${begins}><summary><${Icon} name="chev" /><${State} state=${state} word=${word} /><code class="name">${title}</code><span class="soft cut grow">${about}</span><span class="dim nowrap">${right}</span></summary>${children}</details>`;
}

/** What a button did, or why not. @returns {[string, (work: () => Promise<unknown>) => Promise<void>, boolean]} */
function useWork() {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const work = async (/** @type {() => Promise<unknown>} */ what) => {
    setBusy(true);
    setProblem("");
    try {
      await what();
    } catch (error) {
      setProblem(words(error));
    } finally {
      setBusy(false);
    }
  };
  return [problem, work, busy];
}

/** @param {{row: any, isOpen: boolean}} props */
export function Approval({ row, isOpen }) {
  const [problem, work, busy] = useWork();
  const [edit, setEdit] = useState(/** @type {string | null} */ (null));
  const answer = (/** @type {Record<string, unknown>} */ body) => work(async () => {
    await post(`/api/approvals/${row.id}`, { by: "console", ...(edit === null ? {} : { arguments: edit }), ...body });
    refreshApprovals();
  });
  const isExact = reads(row.text);
  const left = row.expires_at === null ? "" : `expires in ${span(seconds(row.expires_at) - Date.now() / 1000)}`;
  return html`<${Entry} state="waiting" title=${row.tool} about=${`asked by ${row.consumer || "a program"}: ${brief(row.arguments, 90)}`} right=${left} isOpen=${isOpen}>
    <div class="body"><div><h3>What would happen</h3><p>${row.tool} runs with exactly these arguments. Nothing has run yet.</p><h3>Why it is asked</h3><p class="soft">${row.reason || "A rule of [approval] in toolrun.toml wants it."}</p>
        <p class="dim">Asked <${Time} at=${row.asked_at} />${row.conversation && html`, <a href=${href("calls", "", { conversation: row.conversation })}>conversation ${row.conversation}</a>`}</p></div>
      <div><h3>Exactly these arguments</h3>${edit === null ? html`<${isExact ? Json : Text} value=${row.arguments} text=${row.text} label="Arguments" />` : html`<textarea class="code" rows="6" spellcheck=${false} aria-label="Arguments" value=${edit} onInput=${(/** @type {any} */ event) => setEdit(event.target.value)}></textarea>`}
        ${row.withheld && html`<p class="help">${row.withheld === "hidden" ? "A secret in them is hidden" : "They are cut here"}, so they cannot be changed.</p>`}</div></div>
    ${problem && html`<div class="body wide"><${Problem}>${problem}<//></div>`}
    <footer>
      <button type="button" class="btn primary" disabled=${busy} onClick=${() => answer({ answer: "allow", scope: "once" })}>${edit === null ? "Approve once" : "Approve with these"}</button>
      ${edit === null && row.conversation && html`<button type="button" class="btn" disabled=${busy} onClick=${() => answer({ answer: "allow", scope: "conversation" })}>For this conversation</button>`}
      ${edit === null && html`<button type="button" class="btn" disabled=${busy} onClick=${() => answer({ answer: "allow", scope: "always" })}>Always, with these arguments</button>`}
      ${!row.withheld && html`<button type="button" class="btn quiet" onClick=${() => setEdit(edit !== null ? null : isExact ? JSON.stringify(row.arguments, null, 2) : row.text)}><${Icon} name="edit" />${edit === null ? "Change arguments" : "Leave them as they are"}</button>`}
      <button type="button" class="btn push" disabled=${busy} onClick=${() => answer({ answer: "deny", scope: "once" })}><${Icon} name="refused" />Refuse</button>
    </footer><//>`;
}

/** Whether this browser reads JSON as what it is: of a number with many digits it may keep the first. @param {string} text */
function reads(text) {
  try {
    return JSON.stringify(parseJson(text)) === text;
  } catch {
    return false; // it is cut
  }
}

/** @param {{effect: any, isOpen: boolean}} props */
function Doubt({ effect, isOpen }) {
  const row = readRow(effect.call);
  const [problem, work, busy] = useWork();
  const [force, setForce] = useState(false);
  const settle = (/** @type {Record<string, unknown>} */ body) => work(async () => {
    try {
      await post(`/api/effects/${encodeURIComponent(row.id)}`, body);
    } catch (error) {
      setForce(body.settle === "not_done" && effect.may_act);
      throw error;
    }
    refreshEffects();
  });
  return html`<${Entry} state="in_doubt" title=${row.tool} about=${`asked by ${row.consumer || "a program"}: ${brief(row.args, 90)}`} right=${html`<${Time} at=${row.at} />, ${ago(row.at)}`} isOpen=${isOpen}>
    <div class="body"><div><h3>What may have happened</h3><p>${effect.known.charAt(0).toUpperCase()}${effect.known.slice(1)}.</p>${effect.may_act && html`<p class="soft">It may still be running, and act.</p>`}</div>
      <div><h3>Arguments as run</h3><pre class="code fold" tabindex="0" role="region" aria-label="Arguments as run">${brief(row.args, 400)}</pre><p class="dim">Call <a href=${href("calls", row.id)}>${row.id}</a></p></div></div>
    ${problem && html`<div class="body wide"><${Problem}>${problem}<//></div>`}
    <footer>
      ${effect.can_verify && html`<button type="button" class="btn primary" disabled=${busy} onClick=${() => settle({ settle: "verify" })}><${Icon} name="again" />Check with the tool</button>`}
      <button type="button" class="btn" disabled=${busy} onClick=${() => settle({ settle: "done" })}><${Icon} name="ok" />It happened</button>
      <button type="button" class="btn" disabled=${busy} onClick=${() => settle({ settle: "not_done" })}><${Icon} name="failed" />It did not happen</button>
      ${force && html`<button type="button" class="btn" disabled=${busy} onClick=${() => settle({ settle: "not_done", force: true })}>It did not, and will not</button>`}
      <code class="push dim not-phone">toolrun effects settle ${row.id}</code>
    </footer><//>`;
}

/** @param {{change: any, isOpen: boolean}} props */
function Change({ change, isOpen }) {
  const [problem, work, busy] = useWork();
  const accept = () => work(async () => {
    await post(`/api/trust/${encodeURIComponent(change.server)}/${encodeURIComponent(change.tool)}`, { accept: true, hash: change.hash });
    refreshHeld();
    refreshTools();
  });
  return html`<${Entry} state="waiting" word=${change.held ? "held" : "changed"} title=${change.tool} about=${`of ${change.server}: ${`${change.parts.join(", ")} changed`}`} right=${change.held ? "not offered" : "still offered"} isOpen=${isOpen}>
    <div class="body wide"><h3>What the server has changed</h3><${Diff} diff=${change.difference} /></div>
    ${problem && html`<div class="body wide"><${Problem}>${problem}<//></div>`}
    <footer><button type="button" class="btn" disabled=${busy} onClick=${accept}><${Icon} name="ok" />Accept this definition</button><span class="dim">A description is read by models: what it says, they may do.</span><code class="push dim not-phone">toolrun trust</code></footer><//>`;
}

/** A unified diff. @param {{diff: string}} props */
function Diff({ diff }) {
  return html`<pre class="code fold diff-lines" tabindex="0" role="region" aria-label="Differences">${diff.split("\n").map((line) => {
    const kind = line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "";
    return html`<span class=${kind}>${visible(line)}${"\n"}</span>`;
  })}</pre>`;
}

function Answers() {
  const [settled, setSettled] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    const stop = new AbortController();
    get("/api/calls", { limit: 500 }, stop.signal).then((found) => setSettled(found.calls.filter((/** @type {any} */ it) => it.settled_as)), () => undefined);
    return () => stop.abort();
  }, [effects.value]);
  const usable = (approvals.value ?? []).filter((it) => it.state !== "pending");
  return html`<aside class="stack" aria-label="Answered">
    ${usable.length > 0 && html`<section class="sect"><h2>Answers that hold</h2><table class="bare tall"><tbody>${usable.map((row) => html`<${Given} key=${row.id} row=${row} />`)}</tbody></table></section>`}
    ${settled.length > 0 && html`<section class="sect"><div class="row"><h2>Settled</h2></div><table class="bare tall"><tbody>${settled.slice(0, 12).map((raw) => {
      const row = readRow(raw);
      return html`<tr key=${row.id}><td class="dim nowrap"><${Time} at=${row.at} /></td><td><a href=${href("calls", row.id)}><code>${row.tool}</code></a><br /><span class="soft">${row.word.replace("settled: ", "")}</span></td></tr>`;
    })}</tbody></table></section>`}
    <p class="dim">A call in doubt is never repeated by itself. A late report of its tool settles it without you.</p></aside>`;
}

/** @param {{row: any}} props */
function Given({ row }) {
  const [problem, work, busy] = useWork();
  const revoke = () => work(async () => {
    await remove(`/api/approvals/${row.id}`);
    refreshApprovals();
  });
  const scopes = { once: "once", conversation: "in its conversation", always: "always" };
  return html`<tr><td><code>${row.tool}</code><br /><span class="soft">${row.state === "allowed" ? "Approved" : "Refused"} ${scopes[/** @type {"once"} */ (row.scope)] ?? ""}</span>${problem && html`<br /><span class="st-failed">${problem}</span>`}</td><td class="num"><button type="button" class="btn small" disabled=${busy} onClick=${revoke}>Take back</button></td></tr>`;
}

