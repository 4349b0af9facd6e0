// @ts-check
/** Around every page: navigation, search, theme, and whether the page is connected. */
import { needsToken, setToken } from "./api.js";
import { count, durationText } from "./format.js";
import { focusFilter, useKeys } from "./keys.js";
import { html, useEffect, useState } from "./lib.js";
import { connection, tryNow } from "./live.js";
import { dialog, Dialogs } from "./palette.js";
import { Icon } from "./parts.js";
import { route } from "./router.js";
import { health, open, running, tools } from "./state.js";

export const PAGES = { tools: "Tools", try: "Try", calls: "Calls", effects: "Effects", chat: "Chat", health: "Health" };
/** @typedef {keyof typeof PAGES} PageName */

/** @param {{children?: unknown}} props */
export function Shell({ children }) {
  useKeys({
    "Mod+k": () => (dialog.value = dialog.value === "search" ? "" : "search"),
    "?": () => (dialog.value = "help"),
    "/": focusFilter,
  });
  const page = route.value.page;
  const title = PAGES[/** @type {PageName} */ (page)] ?? "toolrun";
  useEffect(() => {
    document.title = route.value.id ? `${route.value.id} · ${title} · toolrun` : `${title} · toolrun`;
  });
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <div class="app">
      <${Navigation} page=${page} />
      <header class="top">
        <a class="brand only-phone" href="#/tools"><${Logo} /><span>${title}</span></a>
        <button type="button" class="find" onClick=${() => (dialog.value = "search")}><${Icon} name="find" /><span>Search tools and calls</span><kbd aria-hidden="true">${isMac ? "⌘K" : "Ctrl K"}</kbd></button>
        <${Connection} />
        <${Theme} />
      </header>
      <main class="main ${connection.value.state === "lost" ? "stale" : ""}" id="main" tabindex="-1">${needsToken.value ? html`<${TokenNeeded} />` : children}</main>
    </div>
    <${Dialogs} />`;
}

const isMac = /Mac|iP(hone|ad)/.test(navigator.platform);

/** The fragment of the address says which page is shown, so a link inside the page cannot use it. @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

const Logo = () => html`<svg viewBox="0 0 18 18" aria-hidden="true"><path d="M2 4h9M2 9h6M2 14h9" stroke="currentColor" stroke-width="2" stroke-linecap="round" fill="none" /><path d="m11.5 5.5 4 3.5-4 3.5z" fill="currentColor" /></svg>`;

/** @param {{page: string}} props */
function Navigation({ page }) {
  /** @type {Record<string, [number, string, boolean]>} */
  const counts = {
    tools: [tools.value?.length ?? 0, "", false],
    calls: [running.value.length, " running", false],
    effects: [open.value, " open", true],
  };
  return html`<nav class="nav" aria-label="Pages">
    <a class="brand" href="#/tools"><${Logo} /><span>toolrun</span></a>
    <ul>${Object.entries(PAGES).map(([name, title]) => {
      const [number, word, needsPerson] = counts[name] ?? [0, "", false];
      return html`<li key=${name}><a href="#/${name}" aria-current=${name === page ? "page" : undefined}><${Icon} name=${name} /><span>${title}</span>
        ${number > 0 && html`<span class="count ${needsPerson ? "attn" : ""}">${count(number)}<span class="sr">${word}</span></span>`}</a></li>`;
    })}</ul>
    <${Foot} />
  </nav>`;
}

/** The folder of the project, in which the journal is. @param {string | null | undefined} path */
const projectName = (path) => /([^/]+)\/\.toolrun\/[^/]+$/.exec(path ?? "")?.[1] ?? "";

function Foot() {
  const it = health.value;
  return html`<div class="nav-foot">
    <b class="cut">${projectName(it?.journal.path) || location.hostname}</b><span>${location.host}</span>
    ${it && html`<span>toolrun ${it.version}</span><span>up ${durationText(Math.round(it.uptime) * 1000).replace(".00", "")}</span>`}
    <button type="button" class="link" onClick=${() => (dialog.value = "help")}>Keys <kbd>?</kbd></button>
  </div>`;
}

function Connection() {
  const { state, retryAt } = connection.value;
  const [, tick] = useState(0);
  useEffect(() => {
    if (state !== "lost") return undefined;
    const timer = setInterval(() => tick(Date.now()), 500);
    return () => clearInterval(timer);
  }, [state]);
  const left = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
  const [kind, text] = { live: ["ok", "Live"], connecting: ["", "Connecting"], lost: ["failed", "No connection"], token: ["waiting", "Token needed"] }[state] ?? ["", ""];
  return html`<div class="conn ${kind}">
    <span class="dot" aria-hidden="true"></span><span role="status">${text}</span>
    ${state === "lost" && html`<span class="not-phone">trying again in ${left} s</span><button type="button" class="btn small" onClick=${tryNow}>Try now</button>`}
  </div>`;
}

/** @returns {string} */
const chosenTheme = () => document.documentElement.dataset.theme ?? "";

function Theme() {
  const [theme, setTheme] = useState(chosenTheme());
  const choose = (/** @type {string} */ name) => () => {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    try {
      localStorage.setItem("toolrun.theme", name);
    } catch {
      // It holds for this page only.
    }
    setTheme(name);
    dispatchEvent(new Event("toolrun-theme"));
  };
  const options = [["light", "sun", "Light"], ["dark", "moon", "Dark"], ["", "auto", "As the system"]];
  return html`<div class="seg theme" role="group" aria-label="Theme">${options.map(
    ([name = "", icon, label]) => html`<button type="button" aria-pressed=${theme === name ? "true" : "false"} aria-label=${label} title=${label} onClick=${choose(name)}><${Icon} name=${icon} /></button>`,
  )}</div>`;
}

function TokenNeeded() {
  const [text, setText] = useState("");
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text.trim()) setToken(text);
  };
  return html`<div class="lost"><form class="empty" onSubmit=${send}>
    <h1 class="big">Token needed</h1>
    <p>This server answers only those who have its token. <code>toolrun console</code> opens the page with it; it is also in <code>.toolrun/token</code> of the project.</p>
    <div class="field wide"><label for="token">Token</label><input class="input" id="token" type="password" autocomplete="off" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></div>
    <button class="btn primary" type="submit">Use this token</button>
    <p class="dim">It is kept until you close this tab.</p>
  </form></div>`;
}

