// @ts-check
/** Starts the console: reads what is there, follows what happens, and shows the page of the address. */
import { html, render, signal } from "./lib.js";
import { keepOpen, onReturn } from "./live.js";
import { Problem } from "./parts.js";
import { route } from "./router.js";
import { Shell } from "./shell.js";
import { follow } from "./state.js";
import { words } from "./api.js";

/** A page is loaded when it is first shown. @type {Map<string, () => Promise<{Page: () => any}>>} */
const LOADERS = new Map(Object.entries({
  tools: () => import("./tools.js"),
  try: () => import("./try.js"),
  calls: () => import("./calls.js"),
  effects: () => import("./effects.js"),
  chat: () => import("./chat.js"),
  health: () => import("./health.js"),
}));
/** @type {import("@preact/signals").Signal<Map<string, () => any>>} */
const loaded = signal(new Map());
/** @type {import("@preact/signals").Signal<string>} */
const problem = signal("");

/** @param {string} name */
async function load(name) {
  const loader = LOADERS.get(name);
  if (!loader || loaded.peek().has(name)) return;
  try {
    const { Page } = await loader();
    loaded.value = new Map(loaded.peek()).set(name, Page);
    problem.value = "";
  } catch (error) {
    problem.value = `The page could not be loaded: ${words(error)}`;
  }
}

function Console() {
  const name = route.value.page;
  const Page = loaded.value.get(name);
  const missing = html`<div class="lost"><h1 class="big">There is no page ${name}</h1><p><a href="#/tools">Tools</a></p></div>`;
  const content = Page ? html`<${Page} key=${name} />` : problem.value ? html`<div class="lost"><${Problem}>${problem.value}<//></div>` : LOADERS.has(name) ? null : missing;
  return html`<${Shell}>${content}<//>`;
}

route.subscribe(({ page }) => void load(page));
onReturn(() => load(route.peek().page));
follow();
void keepOpen();
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(html`<${Console} />`, root);
}
