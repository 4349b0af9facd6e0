// @ts-check
/** Requests to the HTTP API of this server: JSON in, JSON out, and streams of events. Knows the token, and nothing of pages. */
import { parseJson } from "./exact_json.js";
import { signal } from "./lib.js";

const KEY = "toolrun.token";

/** What went wrong with a request, in words for people. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    /** 0: there was no answer. */
    this.status = status;
  }
}

/** Whether the server has refused the token, or the lack of one. */
export const needsToken = signal(false);

let token = "";
takeToken();

/** The token from the address, once: it is moved out of sight, so that it is in no bookmark and no history. */
function takeToken() {
  const found = /^#token=([^&]*)(?:&(.*))?$/s.exec(location.hash);
  if (found) {
    setToken(decodeURIComponent(found[1] ?? ""));
    history.replaceState(null, "", `${location.pathname}${location.search}#${found[2] ?? "/"}`);
  }
  try {
    token ||= sessionStorage.getItem(KEY) ?? "";
  } catch {
    // The browser keeps nothing for pages.
  }
}

/** @param {string} given */
export function setToken(given) {
  token = given.trim();
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // The browser keeps nothing for pages: the token is asked for again when the page is loaded again.
  }
  needsToken.value = false;
}

/**
 * @param {string} path @param {RequestInit & {json?: unknown}} [options]
 * @returns {Promise<Response>} one that is ok
 */
async function request(path, { json, ...options } = {}) {
  const headers = new Headers(options.headers);
  if (token) headers.set("authorization", `Bearer ${token}`);
  if (json !== undefined) headers.set("content-type", "application/json");
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", ...(json === undefined ? {} : { body: JSON.stringify(json) }) });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "There is no connection to the server. Does 'toolrun serve --http' still run?");
  }
  if (response.ok) return response;
  if (response.status === 401) needsToken.value = true;
  throw new ApiError(response.status, await reason(response));
}

/** @param {Response} response */
async function reason(response) {
  const text = await response.text();
  try {
    const said = String(JSON.parse(text).error ?? text);
    return said.charAt(0).toUpperCase() + said.slice(1);
  } catch {
    return text || `The server answered ${response.status}.`;
  }
}

/** @param {Response} response */
const read = async (response) => parseJson(await response.text());

/**
 * @param {string} path @param {Record<string, string | number | null | undefined>} [query] @param {AbortSignal} [stop]
 * @returns {Promise<any>}
 */
export async function get(path, query = {}, stop) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return read(await request(search ? `${path}?${search}` : path, stop ? { signal: stop } : {}));
}

/** @param {string} path @param {unknown} json @param {AbortSignal} [stop] @returns {Promise<any>} */
export async function post(path, json, stop) {
  return read(await request(path, { method: "POST", json, ...(stop ? { signal: stop } : {}) }));
}

/** @param {string} path @returns {Promise<any>} */
export async function remove(path) {
  return read(await request(path, { method: "DELETE" }));
}

/** @typedef {{event: string, data: any}} ServerEvent */

/**
 * The events of a stream, until it ends. `EventSource` cannot send a token.
 * @param {string} path
 * @param {{json?: unknown, method?: string, stop?: AbortSignal, headers?: Record<string, string>, opened?: () => void, heard?: () => void}} [options]
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* events(path, { json, method, stop, headers, opened, heard } = {}) {
  const response = await request(path, {
    method: method ?? (json === undefined ? "GET" : "POST"),
    headers: { accept: "text/event-stream", ...headers },
    ...(json === undefined ? {} : { json }),
    ...(stop ? { signal: stop } : {}),
  });
  opened?.();
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard?.();
      yield* parser.feed(value);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Reads a stream of events, in pieces of any size. A piece is looked at once: results may have megabytes. */
export class EventParser {
  constructor() {
    this.rest = "";
    this.event = "";
    /** @type {string[]} */
    this.data = [];
  }

  /** @param {string} piece @returns {ServerEvent[]} */
  feed(piece) {
    if (!piece.includes("\n")) {
      this.rest += piece;
      return [];
    }
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.line(line.endsWith("\r") ? line.slice(0, -1) : line));
  }

  /** @param {string} line @returns {ServerEvent[]} */
  line(line) {
    if (line) {
      const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
      if (field === "event") this.event = value;
      if (field === "data") this.data.push(value);
      return [];
    }
    const { event, data } = this;
    this.event = "";
    this.data = [];
    if (!data.length) return [];
    try {
      return [{ event: event || "message", data: parseJson(data.join("\n")) }];
    } catch {
      return [];
    }
  }
}

/** @param {unknown} error */
export function words(error) {
  return error instanceof Error ? error.message : String(error);
}
