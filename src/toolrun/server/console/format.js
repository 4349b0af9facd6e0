// @ts-check
/** Times, durations, numbers and arguments, as people read them. Pure. */
import { parseJson } from "./exact_json.js";

/** No time in seconds is that large, and every one in microseconds is larger. */
const MICROSECONDS = 1e11;

/** Seconds since 1970: the journal counts in microseconds, requests for approval in seconds. @param {number | null | undefined} value */
export function seconds(value) {
  if (value === null || value === undefined) return NaN;
  return value > MICROSECONDS ? value / 1e6 : value;
}

/** @param {number} value @param {number} [width] */
const pad = (value, width = 2) => String(value).padStart(width, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/**
 * A time of today as 14:31:22, before today with the date.
 * @param {number | null | undefined} value @param {{exact?: boolean, now?: number}} [how]
 */
export function time(value, { exact = false, now = Date.now() } = {}) {
  const at = new Date(seconds(value) * 1000);
  if (Number.isNaN(at.getTime())) return "–";
  const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}${exact ? `.${pad(at.getMilliseconds(), 3)}` : ""}`;
  const today = new Date(now);
  if (at.toDateString() === today.toDateString()) return clock;
  const year = at.getFullYear() === today.getFullYear() ? "" : ` ${at.getFullYear()}`;
  return `${at.getDate()} ${MONTHS[at.getMonth()]}${year} ${exact ? clock : clock.slice(0, 5)}`;
}

/** Figure and unit of a duration: three figures, one unit. @param {number | null | undefined} ms @returns {[string, string]} */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return ["–", ""];
  if (ms < 0.9995) return [`${Math.round(ms * 1000)}`, "µs"];
  if (ms < 9.995) return [ms.toFixed(1), "ms"];
  if (ms < 999.5) return [`${Math.round(ms)}`, "ms"];
  if (ms < 59_995) return [(ms / 1000).toFixed(2), "s"];
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return [`${minutes} min ${Math.floor(ms / 1000) % 60}`, "s"];
  if (minutes < 24 * 60) return [`${Math.floor(minutes / 60)} h ${minutes % 60}`, "min"];
  return [`${Math.floor(minutes / 1440)} d ${Math.floor(minutes / 60) % 24}`, "h"];
}

/** @param {number | null | undefined} ms */
export function durationText(ms) {
  const [figure, unit] = duration(ms);
  return unit ? `${figure} ${unit}` : figure;
}

/** "3 min ago", beside buttons, where an exact time stands too. @param {number} value @param {number} [now] */
export function ago(value, now = Date.now()) {
  const passed = now / 1000 - seconds(value);
  return passed < 1 ? "just now" : `${span(passed)} ago`;
}

/** About how long, in one unit. @param {number} passed seconds */
export function span(passed) {
  if (passed < 90) return `${Math.max(0, Math.round(passed))} s`;
  if (passed < 5400) return `${Math.round(passed / 60)} min`;
  if (passed < 129_600) return `${Math.round(passed / 3600)} h`;
  return `${Math.round(passed / 86_400)} days`;
}

/** @param {number} value */
export const count = (value) => value.toLocaleString("en-GB");

/** @param {number} number @param {string} one @param {string} [many] */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  if (bytes < 999_500) return `${(bytes / 1000).toPrecision(3)} kB`;
  return `${(bytes / 1_000_000).toPrecision(3)} MB`;
}

/** Characters that change how a text is shown, or that nobody sees: escapes of terminals, directions, zero widths. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?<=[\s\ufe00-\ufe0f])[\ufe00-\ufe0f]/gu;

/** A text in which everything is seen. @param {string} text */
export function visible(text) {
  return text.replace(HIDDEN, (found) => {
    const code = found.codePointAt(0) ?? 0;
    if (code === 0x0d) return "␍";
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `\\u{${code.toString(16)}}`;
  });
}

/**
 * Arguments in a list: text bare, others as name=value. At most `limit` characters.
 * @param {unknown} value @param {number} [limit] @returns {string}
 */
export function brief(value, limit = 160) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "string") return briefText(value, limit);
  if (typeof value !== "object") return cut(visible(String(value)), limit);
  if (Array.isArray(value)) return cut(visible(JSON.stringify(value)), limit);
  const parts = [];
  let length = 0;
  for (const [name, part] of Object.entries(value)) {
    const text = typeof part === "string" ? part : `${name}=${JSON.stringify(part)}`;
    parts.push(text.length > limit ? text.slice(0, limit) : text);
    length += text.length;
    if (length > limit) break;
  }
  return parts.length ? cut(visible(parts.join(", ")), limit) : "none";
}

/** The beginning of the JSON text of arguments, which may be cut in the middle. @param {string} text @param {number} limit @returns {string} */
function briefText(text, limit) {
  try {
    const value = parseJson(text);
    if (value && typeof value === "object") return brief(value, limit);
  } catch {
    // It is cut, or no JSON.
  }
  return cut(visible(text), limit);
}

/** @param {string} text @param {number} limit @returns {string} */
export const cut = (text, limit) => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text);

/** @param {unknown} value @returns {string} JSON, in one line, with spaces as people write it. */
export function inline(value) {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (value && typeof value === "object") {
    const parts = Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}: ${inline(part)}`);
    return `{${parts.join(", ")}}`;
  }
  return JSON.stringify(value) ?? "null";
}
