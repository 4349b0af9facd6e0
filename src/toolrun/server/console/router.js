// @ts-check
/** Where the page is: the fragment of the address, `#/calls/17-204?tool=echo`. Knows nothing of pages. */
import { signal } from "./lib.js";

/** @typedef {{page: string, id: string, query: URLSearchParams}} Route */

/** @returns {Route} */
function read() {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", ...rest] = path.split("/");
  return { page: page || "tools", id: decode(rest.join("/")), query: new URLSearchParams(query) };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = signal(read());

/**
 * The address of a page.
 * @param {string} page @param {string} [id] @param {Record<string, string | number | null | undefined>} [query]
 */
export function href(page, id = "", query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ""}${search ? `?${search}` : ""}`;
}

/** @param {string} address @param {{replace?: boolean}} [how] */
export function go(address, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", address);
    route.value = read();
  } else if (location.hash !== address) location.hash = address;
}

addEventListener("hashchange", () => {
  route.value = read();
});
