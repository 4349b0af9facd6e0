// @ts-check
/** JSON Schema in words, and as rows of a table. Pure. */
import { inline } from "./format.js";

/** @typedef {import("./types.js").Schema} Schema */
/** @typedef {{path: string, name: string, depth: number, required: boolean | null, type: string, limits: string[], meaning: string, standard: string | null}} SchemaRow */

const MAX_DEPTH = 8;
const MAX_ROWS = 400;
const MAX_OPTIONS = 12;

/**
 * A schema with its local references followed, and `allOf` put together.
 * @param {any} schema @param {Schema} root @param {number} [depth] in `allOf`, which may hold itself @returns {Schema}
 */
export function resolve(schema, root, depth = 0) {
  let found = schema;
  for (let step = 0; step < MAX_DEPTH && found && typeof found === "object" && typeof found.$ref === "string"; step += 1) {
    const { $ref, ...beside } = found;
    found = { ...target($ref, root), ...beside };
  }
  if (!found || typeof found !== "object") return {};
  if (!Array.isArray(found.allOf)) return found;
  const { allOf, ...rest } = found;
  if (depth > MAX_DEPTH) return rest;
  return allOf.map((/** @type {any} */ part) => resolve(part, root, depth + 1)).reduce(merged, rest);
}

/** @param {Schema} a @param {Schema} b @returns {Schema} */
function merged(a, b) {
  const both = { ...b, ...a };
  if (a.properties || b.properties) both.properties = { ...b.properties, ...a.properties };
  if (a.required || b.required) both.required = [...new Set([...(a.required ?? []), ...(b.required ?? [])])];
  return both;
}

/** @param {string} reference @param {Schema} root */
function target(reference, root) {
  if (!reference.startsWith("#")) return {};
  /** @type {any} */
  let found = root;
  for (const part of reference.slice(1).split("/").filter(Boolean)) {
    found = own(found, decoded(part).replaceAll("~1", "/").replaceAll("~0", "~"));
  }
  return found && typeof found === "object" ? found : {};
}

/** A part of an object that it has itself: names of parameters may be anything. @param {any} whole @param {string} name */
export const own = (whole, name) => (whole && typeof whole === "object" && Object.hasOwn(whole, name) ? whole[name] : undefined);

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The forms between which a value may choose, without "nothing". @param {Schema} schema @param {Schema} root @returns {Schema[]} */
export function forms(schema, root) {
  const options = schema.oneOf ?? schema.anyOf;
  if (!Array.isArray(options)) return [];
  const { oneOf, anyOf, ...shared } = schema;
  return options.map((option) => ({ ...merged(resolve(option, root), shared) })).filter((option) => !isNothing(option));
}

/** @param {Schema} schema */
const isNothing = (schema) => schema.type === "null" || schema.const === null;

/** The one type of a schema, or "" if it has none or several. @param {Schema} schema @returns {string} */
export function kind(schema) {
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((/** @type {any} */ it) => it && it !== "null");
  if (types.length === 1) return String(types[0]);
  if (types.length > 1) return "";
  if (schema.properties || schema.additionalProperties) return "object";
  return schema.items || schema.prefixItems ? "array" : "";
}

/** The values that are allowed, if they are listed. @param {Schema} schema @returns {any[] | null} */
export function options(schema) {
  if (Array.isArray(schema.enum)) return schema.enum.filter((it) => it !== null);
  if ("const" in schema) return [schema.const];
  const listed = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(listed) && listed.length && listed.every((it) => it && typeof it === "object" && "const" in it)) {
    return listed.map((it) => it.const).filter((it) => it !== null);
  }
  return null;
}

/** @type {Record<string, string>} */
const TYPES = { string: "text", integer: "whole number", number: "number", boolean: "yes or no", object: "object", array: "list", null: "nothing" };
/** @type {Record<string, string>} */
const FORMATS = { date: "date", "date-time": "date and time", time: "time", email: "e-mail address", uri: "URL", uuid: "UUID", duration: "duration" };

/** @param {string[]} parts */
const either = (parts) => (parts.length > 1 ? `${parts.slice(0, -1).join(", ")} or ${parts.at(-1)}` : (parts[0] ?? ""));

/** The type of a schema, in words. @param {any} schema @param {Schema} root @param {number} [depth] @returns {string} */
export function typeWords(schema, root, depth = 0) {
  const found = resolve(schema, root);
  const listed = options(found);
  if (listed) {
    const shown = listed.slice(0, MAX_OPTIONS).map((it) => (typeof it === "string" ? it || '""' : inline(it)));
    return listed.length > MAX_OPTIONS ? `${shown.join(", ")} and ${listed.length - MAX_OPTIONS} more` : either(shown);
  }
  const several = forms(found, root);
  if (several.length > 1) return depth < 2 ? either(unique(several.map((it) => it.title ?? typeWords(it, root, depth + 1)))) : `one of ${several.length} forms`;
  if (several[0]) return typeWords(several[0], root, depth + 1);
  const types = (Array.isArray(found.type) ? found.type : [kind(found)]).filter((it) => it && it !== "null");
  return either(types.map((/** @type {string} */ type) => word(type, found, root, depth))) || "anything";
}

/** @param {string[]} words */
const unique = (words) => [...new Set(words)];

/** @param {string} type @param {Schema} schema @param {Schema} root @param {number} depth */
function word(type, schema, root, depth) {
  if (type === "array" && depth < 3) {
    const each = schema.items && typeof schema.items === "object" ? typeWords(schema.items, root, depth + 1) : "";
    return each && each !== "anything" ? `list of ${each === "object" ? "objects" : each}` : "list";
  }
  if (type === "string" && own(FORMATS, schema.format)) return own(FORMATS, schema.format);
  return TYPES[type] ?? type;
}

/** What else a value must be. @param {any} schema @param {Schema} root @returns {string[]} */
export function limits(schema, root) {
  const it = resolve(schema, root);
  const only = forms(it, root);
  if (only.length === 1 && !options(it)) return [...limits(only[0], root), ...(hasNothing(it) ? ["or nothing"] : [])];
  const found = [
    range(it.minimum, it.maximum),
    it.exclusiveMinimum === undefined ? "" : `more than ${it.exclusiveMinimum}`,
    it.exclusiveMaximum === undefined ? "" : `less than ${it.exclusiveMaximum}`,
    it.multipleOf === undefined ? "" : `a multiple of ${it.multipleOf}`,
    it.minLength === 1 && it.maxLength === undefined ? "not empty" : range(it.minLength, it.maxLength, "character"),
    range(it.minItems, it.maxItems, "value"),
    it.uniqueItems ? "each once" : "",
    it.pattern === undefined ? "" : `matches ${it.pattern}`,
    hasNothing(it) ? "or nothing" : "",
  ];
  return found.filter(Boolean);
}

/** @param {Schema} schema */
export function hasNothing(schema) {
  if (Array.isArray(schema.type) && schema.type.includes("null")) return true;
  return [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].some((it) => it && typeof it === "object" && isNothing(it));
}

/** @param {number | undefined} least @param {number | undefined} most @param {string} [unit] */
function range(least, most, unit = "") {
  if (least === undefined && most === undefined) return "";
  const units = unit && ` ${unit}${(most ?? least) === 1 ? "" : "s"}`;
  if (most === undefined) return `at least ${least}${units}`;
  if (least === undefined || (least === 0 && unit)) return `up to ${most}${units}`;
  return least === most ? `exactly ${most}${units}` : `${least} to ${most}${units}`;
}

/** All parameters of a schema as rows: nested ones under the one that holds them. @param {Schema} root @returns {SchemaRow[]} */
export function rows(root) {
  /** @type {SchemaRow[]} */
  const found = [];
  addInside(found, resolve(root, root), { root, path: "", depth: 0, holders: [] });
  return found;
}

/** Where rows are added: `holders` are the parameters of the schemas around them. @typedef {{root: Schema, path: string, depth: number, holders: any[]}} Place */

/** @param {SchemaRow[]} found @param {Schema} schema @param {Place} place */
function addProperties(found, schema, { root, path, depth, holders }) {
  if (schema.properties && holders.includes(schema.properties)) {
    found.at(-1)?.limits.push("as above"); // a schema that holds itself
    return;
  }
  const inside = { root, depth, holders: [...holders, schema.properties] };
  const required = new Set(schema.required ?? []);
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    add(found, property, { ...inside, name, path: path ? `${path}.${name}` : name, required: required.has(name) });
  }
  if (schema.additionalProperties && typeof schema.additionalProperties === "object" && Object.keys(schema.additionalProperties).length) {
    add(found, schema.additionalProperties, { ...inside, name: "any other name", path: `${path}.*`, required: null });
  }
}

/** @param {SchemaRow[]} found @param {any} property @param {Place & {name: string, required: boolean | null}} place */
function add(found, property, { name, required, ...place }) {
  const { root, path, depth } = place;
  if (found.length >= MAX_ROWS || depth > MAX_DEPTH) return;
  const schema = resolve(property, root);
  const standard = "default" in schema ? inline(schema.default) : null;
  found.push({ name, path, depth, required, type: typeWords(schema, root), limits: limits(schema, root), meaning: schema.description ?? title(schema, name), standard });
  addInside(found, schema, { ...place, depth: depth + 1 });
}

/** The title of a parameter, unless it is its name in other letters, as libraries make it. @param {Schema} schema @param {string} name @returns {string} */
function title(schema, name) {
  const plain = (/** @type {string} */ text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
  return typeof schema.title === "string" && plain(schema.title) !== plain(name) ? schema.title : "";
}

/** @param {SchemaRow[]} found @param {Schema} schema @param {Place} place */
function addInside(found, schema, place) {
  const { root, path, depth } = place;
  const several = options(schema) ? [] : forms(schema, root);
  if (several.length === 1 && several[0]) return addInside(found, several[0], place);
  for (const [at, form] of several.entries()) {
    if (!hasInside(form, root)) continue;
    const name = form.title ?? `form ${at + 1} of ${several.length}`;
    found.push({ path: `${path}|${at}`, name, depth, required: null, type: typeWords(form, root), limits: [], meaning: form.description ?? "", standard: null });
    addInside(found, form, { ...place, depth: depth + 1 });
  }
  if (several.length) return undefined;
  const each = kind(schema) === "array" ? resolve(schema.items, root) : null;
  if (each && depth <= MAX_DEPTH && hasInside(each, root)) return addInside(found, each, { ...place, path: `${path}[]` });
  return addProperties(found, schema, place);
}

/** Whether a value has parts that the table has rows for. A list may hold lists of its own kind. @param {Schema} schema @param {Schema} root @param {number} [depth] @returns {boolean} */
function hasInside(schema, root, depth = 0) {
  if (schema.properties || forms(schema, root).some((form) => form.properties)) return true;
  return kind(schema) === "array" && depth < MAX_DEPTH && hasInside(resolve(schema.items, root), root, depth + 1);
}
