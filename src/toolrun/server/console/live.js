// @ts-check
/** The stream of what happens on the server, kept open. A page subscribes to the events that concern it. */
import { ApiError, events, needsToken } from "./api.js";
import { signal } from "./lib.js";

/** @typedef {"connecting" | "live" | "lost" | "token"} ConnectionState */

/** @type {import("@preact/signals").Signal<{state: ConnectionState, retryAt: number}>} */
export const connection = signal({ state: "connecting", retryAt: 0 });

const FIRST_DELAY = 1000;
const LONGEST_DELAY = 15_000;
/** Longer than the server's silences, which a comment ends every 15 s. */
const SILENCE = 40_000;

/** @type {Map<string, Set<(data: any) => void>>} */
const listeners = new Map();
/** @type {Set<() => void>} */
const resumed = new Set();
let wake = () => {};
let openings = 0;

/** @param {string} event @param {(data: any) => void} listener @returns {() => void} ends it */
export function on(event, listener) {
  const found = listeners.get(event) ?? new Set();
  listeners.set(event, found.add(listener));
  return () => void found.delete(listener);
}

/** Called whenever the stream is open again: something may have happened in between. @param {() => void} listener */
export function onResume(listener) {
  resumed.add(listener);
  return () => void resumed.delete(listener);
}

/** Called when the stream is open again after it was lost: what was read may be old, or may be that there was no connection. @param {() => unknown} listener */
export const onReturn = (listener) => onResume(() => void (openings > 1 && listener()));

/** Try now, not when the delay has passed. */
export const tryNow = () => wake();

/** Keep the stream open, forever. */
export async function keepOpen() {
  let delay = FIRST_DELAY;
  for (;;) {
    const stop = new AbortController();
    let timer = 0;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), SILENCE);
    };
    try {
      const opened = () => {
        delay = FIRST_DELAY;
        openings += 1;
        connection.value = { state: "live", retryAt: 0 };
        for (const listener of resumed) listener();
      };
      alive();
      for await (const { event, data } of events("/api/events", { stop: stop.signal, opened, heard: alive })) {
        for (const listener of listeners.get(event) ?? []) listener(data);
      }
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        await tokenGiven();
        continue;
      }
    } finally {
      clearTimeout(timer);
    }
    connection.value = { state: "lost", retryAt: Date.now() + delay };
    await pause(delay);
    delay = Math.min(delay * 2, LONGEST_DELAY);
    connection.value = { state: "connecting", retryAt: 0 };
  }
}

/** @param {number} delay */
function pause(delay) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, delay);
    wake = () => {
      clearTimeout(timer);
      resolve(undefined);
    };
  });
}

function tokenGiven() {
  connection.value = { state: "token", retryAt: 0 };
  return new Promise((resolve) => {
    const end = needsToken.subscribe((needed) => {
      if (needed) return;
      queueMicrotask(() => end());
      connection.value = { state: "connecting", retryAt: 0 };
      resolve(undefined);
    });
  });
}
