// @ts-check
/**
 * JSON in which no whole number loses a digit. Those that JavaScript's numbers cannot hold are BigInts, and are written as they
 * were read: an id of another system may have twenty digits. A browser that cannot do that reads them as numbers.
 */

/** @typedef {(name: string, value: unknown, context: {source: string}) => unknown} Reviver */

const json = /** @type {{parse(text: string, reviver?: Reviver): any, rawJSON?: (text: string) => unknown}} */ (/** @type {unknown} */ (JSON));
const { rawJSON } = json;
/** Text without that many digits in a row has no such number, and is read at full speed. */
const LONG = /\d{16}/;
const WHOLE = /^-?\d+$/;

if (rawJSON) {
  Object.defineProperty(BigInt.prototype, "toJSON", {
    value() {
      return rawJSON(String(this));
    },
  });
}

/** @param {string} text @returns {any} */
export const parseJson = (text) => (rawJSON && LONG.test(text) ? json.parse(text, (_, value, { source }) => (typeof value === "number" ? exact(value, source) : value)) : JSON.parse(text));

/** The number that a text is. @param {string} text */
export const parseNumber = (text) => exact(Number(text), text);

/** @param {number} value @param {string} source */
const exact = (value, source) => (rawJSON && !Number.isSafeInteger(value) && WHOLE.test(source) ? BigInt(source) : value);
