// @ts-check
/**
 * A form for a value that a JSON Schema describes. It keeps no value of its own: it shows the one that it gets, and says what
 * becomes of it. What does not fit is kept as it was typed, so that the dry run can tell what would become of it.
 */
import { parseJson, parseNumber } from "./exact_json.js";
import { html, useId, useState } from "./lib.js";
import { Icon } from "./parts.js";
import { forms, hasNothing, kind, limits, options, own, resolve, typeWords } from "./schema_words.js";

/** @typedef {import("./types.js").Schema} Schema */
/** @typedef {{schema: any, root: Schema, value: any, change: (value: any) => void, name: string, required: boolean, depth: number}} FieldProps */

const MAX_SEGMENTS = 5;
const MAX_SEGMENT_CHARS = 40;
const MAX_DEPTH = 6;

/** The parameters of a tool. @param {{schema: Schema, value: Record<string, any>, change: (value: any) => void}} props */
export function Form({ schema, value, change }) {
  const found = resolve(schema, schema);
  const several = forms(found, schema);
  const names = (several.length ? several : [found]).flatMap((form) => Object.keys(form.properties ?? {}));
  const more = Object.keys(value).filter((name) => !names.includes(name));
  if (!names.length && !more.length) return html`<p class="dim">This tool has no parameters.</p>`;
  return html`${
    several.length > 1
      ? html`<${Choice} schema=${{}} forms=${several} root=${schema} value=${value} change=${change} name="arguments" required=${true} depth=${0} />`
      : html`<${Properties} schema=${several[0] ?? found} root=${schema} value=${value} change=${change} depth=${0} />`
  }
    ${more.length > 0 && html`<p class="help">Only in the JSON: ${more.map((name, at) => [at > 0 && ", ", html`<code>${name}</code>`])}</p>`}`;
}

/** @param {{schema: Schema, root: Schema, value: any, change: (value: any) => void, depth: number}} props */
function Properties({ schema, root, value, change, depth }) {
  const given = value && typeof value === "object" && !Array.isArray(value) ? value : {};
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(
    ([name, property]) => html`<${Field} key=${name} schema=${property} root=${root} name=${name} required=${required.has(name)} depth=${depth}
      value=${own(given, name)} change=${(/** @type {any} */ part) => change(withPart(given, name, part))} />`,
  );
}

/** @param {Record<string, any>} whole @param {string} name @param {any} part */
function withPart(whole, name, part) {
  if (part === undefined) {
    const { [name]: _, ...rest } = whole;
    return rest;
  }
  return { ...whole, [name]: part };
}

/** @param {FieldProps} props */
function Field(props) {
  const schema = resolve(props.schema, props.root);
  const several = options(schema) ? [] : forms(schema, props.root);
  if (several.length > 1) return html`<${Choice} ...${props} schema=${schema} forms=${several} />`;
  const only = several[0] ? { ...several[0], description: schema.description ?? several[0].description } : schema;
  if (props.depth < MAX_DEPTH && !options(only)) {
    if (kind(only) === "object" && only.properties) return html`<${Group} ...${props} schema=${only} />`;
    if (kind(only) === "array" && only.items && typeof only.items === "object") return html`<${List} ...${props} schema=${only} />`;
  }
  return html`<${Simple} ...${props} schema=${only} whole=${schema} />`;
}

/** Label, control, help. @param {{name: string, about: string, help?: string | undefined, id?: string, labelId?: string, children?: unknown}} props */
function Labelled({ name, about, help, id, labelId, children }) {
  const label = html`<span class="cut">${name}</span> <small>${about}</small>`;
  return html`<div class="field">
    ${id ? html`<label for=${id}>${label}</label>` : html`<span class="label" id=${labelId}>${label}</span>`}
    ${children}${help && html`<p class="help">${help}</p>`}
  </div>`;
}

/** @param {Schema} schema @param {Schema} root @param {boolean} required */
function about(schema, root, required) {
  const type = options(schema) ? "" : typeWords(schema, root);
  return [type, ...limits(schema, root).filter((it) => it !== "or nothing"), required ? "required" : ""].filter(Boolean).join(", ");
}

/** @param {FieldProps & {whole: Schema}} props */
function Simple({ schema, whole, root, value, change, name, required }) {
  const id = useId();
  const listed = options(schema) ?? (kind(schema) === "boolean" ? [true, false] : null);
  const words = about(schema, root, required);
  if (!listed) {
    const toggle = () => change(value === null ? undefined : null);
    return html`<${Labelled} name=${name} id=${id} about=${words} help=${schema.description}><div class="row"><div class="grow"><${Input} id=${id} schema=${schema} value=${value} change=${change} /></div>
      ${hasNothing(whole) && html`<button type="button" class="btn" aria-pressed=${value === null ? "true" : "false"} aria-label="${name}: nothing" onClick=${toggle}>${word(null)}</button>`}</div><//>`;
  }
  const isShort = listed.length <= MAX_SEGMENTS && listed.map(word).join("").length <= MAX_SEGMENT_CHARS;
  const nothing = hasNothing(whole) ? [null] : [];
  if (isShort) {
    const choose = (/** @type {any} */ option) => () => change(same(option, value) ? undefined : option);
    return html`<${Labelled} name=${name} labelId=${id} about=${kind(schema) === "boolean" ? words : required ? "required" : ""} help=${schema.description}>
      <div class="seg" role="group" aria-labelledby=${id}>${[...listed, ...nothing].map(
        (option) => html`<button type="button" aria-pressed=${same(option, value) ? "true" : "false"} onClick=${choose(option)}>${word(option)}</button>`,
      )}</div><//>`;
  }
  const at = listed.findIndex((option) => same(option, value));
  const other = value !== undefined && at < 0;
  return html`<${Labelled} name=${name} id=${id} about=${required ? "required" : `${listed.length} options`} help=${schema.description}>
    <select class="input" id=${id} value=${other ? "other" : String(at)} onChange=${(/** @type {any} */ event) => change(listed[Number(event.target.value)])}>
      <option value="-1">${required ? "Choose one" : "Not given"}</option>
      ${other && html`<option value="other">${word(value)}, which is not in the list</option>`}
      ${listed.map((option, index) => html`<option value=${String(index)}>${word(option)}</option>`)}
    </select><//>`;
}

/** @param {any} option */
const word = (option) => (option === true ? "yes" : option === false ? "no" : option === null ? "nothing" : typeof option === "string" ? option : JSON.stringify(option));
/** @param {any} a @param {any} b */
const same = (a, b) => a === b || (b !== undefined && JSON.stringify(a) === JSON.stringify(b));

/** @param {{id: string, schema: Schema, value: any, change: (value: any) => void, label?: string}} props */
function Input({ id, schema, value, change, label }) {
  const type = kind(schema);
  if (type === "object" || type === "array" || (value !== null && typeof value === "object")) return html`<${JsonInput} id=${id} value=${value} change=${change} label=${label} />`;
  const isNumber = type === "integer" || type === "number";
  const shown = value === undefined || value === null ? "" : String(value);
  const placeholder = schema.default === undefined ? (schema.examples?.[0] ?? "") : schema.default;
  const typed = (/** @type {any} */ event) => change(read(event.target.value, type));
  const hint = placeholder === "" || placeholder === null ? "" : typeof placeholder === "string" ? placeholder : JSON.stringify(placeholder);
  if (type === "string" && (shown.includes("\n") || shown.length > 80 || schema.maxLength > 500)) {
    return html`<textarea class="input area" id=${id} rows="4" aria-label=${label} placeholder=${hint} value=${shown} onInput=${typed}></textarea>`;
  }
  return html`<input class="input" id=${id} aria-label=${label} placeholder=${hint} value=${shown} onInput=${typed} autocomplete="off" spellcheck=${false}
    inputmode=${isNumber ? (type === "integer" && !(schema.minimum < 0) ? "numeric" : "decimal") : undefined} />`;
}

/** What was typed, as the type wants it; what does not fit stays text. @param {string} text @param {string} type */
export function read(text, type) {
  if (text === "") return undefined;
  if (type === "integer" || type === "number") return /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? parseNumber(text) : text;
  if (type === "string") return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** A value without a form of its own. @param {{id: string, value: any, change: (value: any) => void, label?: string}} props */
function JsonInput({ id, value, change, label }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const typed = (/** @type {any} */ event) => {
    setDraft(event.target.value);
    change(read(event.target.value, ""));
  };
  const shown = draft ?? (value === undefined ? "" : JSON.stringify(value, null, 2));
  return html`<textarea class="code" id=${id} rows="3" spellcheck=${false} aria-label=${label} placeholder="JSON" value=${shown} onInput=${typed} onBlur=${() => setDraft(null)}></textarea>`;
}

/** @param {FieldProps} props */
function Group({ schema, root, value, change, name, required, depth }) {
  const isGiven = value !== undefined;
  const id = useId();
  return html`<div class="group" role="group" aria-labelledby=${id}>
    <div class="legend" id=${id}><code>${name}</code> <small>${required ? "object, required" : "object"}</small>
      ${!required && html`<button type="button" class="btn small quiet" aria-label="${isGiven ? "Leave out" : "Add"} ${name}" onClick=${() => change(isGiven ? undefined : {})}>${isGiven ? "Leave out" : "Add"}</button>`}</div>
    ${schema.description && html`<p class="help">${schema.description}</p>`}
    ${(isGiven || required) && html`<${Properties} schema=${schema} root=${root} value=${value} change=${change} depth=${depth + 1} />`}
  </div>`;
}

/** @param {FieldProps} props */
function List({ schema, root, value, change, name, required, depth }) {
  const items = Array.isArray(value) ? value : [];
  const each = resolve(schema.items, root);
  const isPlain = !each.properties && !forms(each, root).length && kind(each) !== "array";
  const set = (/** @type {number} */ at, /** @type {any} */ part) => change(items.map((it, index) => (index === at ? (part ?? (isPlain ? "" : {})) : it)));
  const drop = (/** @type {number} */ at) => change(items.length === 1 && !required ? undefined : items.filter((_, index) => index !== at));
  const add = () => change([...items, each.default ?? options(each)?.[0] ?? { object: {}, integer: 0, number: 0, boolean: false, array: [] }[kind(each)] ?? ""]);
  const id = useId();
  return html`<div class="group" role="group" aria-labelledby=${id}>
    <div class="legend" id=${id}><code>${name}</code> <small>${about(schema, root, required)}</small></div>
    ${schema.description && html`<p class="help">${schema.description}</p>`}
    ${value !== undefined && !Array.isArray(value) && html`<p class="help">The JSON has one value here: it would be read as a list, if that is clear.</p>`}
    ${items.map(
      (item, at) => html`<div class="item" key=${at}>
        <${Field} schema=${each} root=${root} value=${item} change=${(/** @type {any} */ part) => set(at, part)} name="${name} ${at + 1}" required=${true} depth=${depth + 1} />
        <button type="button" class="btn small quiet" aria-label="Remove ${name} ${at + 1}" onClick=${() => drop(at)}><${Icon} name="close" /></button>
      </div>`,
    )}
    <div><button type="button" class="btn small" onClick=${add}><${Icon} name="plus" />Add ${items.length ? "another" : "one"}</button></div>
  </div>`;
}

/** Several forms of a value, of which one is chosen. @param {FieldProps & {forms: Schema[]}} props */
function Choice({ schema, forms: several, root, value, change, name, required, depth }) {
  const id = useId();
  const [chosen, choose] = useState(/** @type {number | null} */ (null));
  const at = chosen ?? fitting(several, root, value);
  const form = several[at] ?? {};
  const pick = (/** @type {any} */ event) => {
    choose(Number(event.target.value));
    change(beginning(several[Number(event.target.value)] ?? {}, root));
  };
  const isObject = kind(form) === "object" && form.properties;
  return html`<div class="group" role="group" aria-label=${name}>
    <div class="legend"><label for=${id}><code>${name}</code> <small>${required ? "one of these, required" : "one of these"}</small></label>
      ${!required && value !== undefined && html`<button type="button" class="btn small quiet" aria-label="Leave out ${name}" onClick=${() => change(undefined)}>Leave out</button>`}</div>
    ${schema.description && html`<p class="help">${schema.description}</p>`}
    <select class="input" id=${id} value=${String(at)} onChange=${pick}>${several.map(
      (it, index) => html`<option value=${String(index)}>${it.title ?? formName(it, root)}</option>`,
    )}</select>
    ${isObject ? html`<${Properties} schema=${form} root=${root} value=${value} change=${change} depth=${depth + 1} key=${at} />` : html`<${Field} schema=${{ ...form, description: undefined }} root=${root} value=${value} change=${change} name=${form.title ?? name} required=${required} depth=${depth + 1} key=${at} />`}
  </div>`;
}

/** @param {Schema} form @param {Schema} root */
function formName(form, root) {
  const fixed = Object.entries(form.properties ?? {}).find(([, it]) => it && typeof it === "object" && "const" in /** @type {any} */ (it));
  if (fixed) return `${fixed[0]}: ${JSON.stringify(/** @type {any} */ (fixed[1]).const)}`;
  const names = Object.keys(form.properties ?? {});
  return names.length ? `object with ${names.slice(0, 4).join(", ")}` : typeWords(form, root);
}

/** What a form begins with: what is fixed in it. @param {Schema} form @param {Schema} root @returns {any} */
function beginning(form, root) {
  if (form.const !== undefined) return form.const;
  if (kind(form) !== "object") return undefined;
  const fixed = Object.entries(form.properties ?? {}).map(([name, it]) => /** @type {[string, Schema]} */ ([name, resolve(it, root)]));
  return Object.fromEntries(fixed.filter(([, it]) => it.const !== undefined).map(([name, it]) => [name, it.const]));
}

/** The form that a value most likely has. @param {Schema[]} several @param {Schema} root @param {any} value */
function fitting(several, root, value) {
  const scores = several.map((form) => score(form, root, value));
  return Math.max(0, scores.indexOf(Math.max(...scores)));
}

/** @param {Schema} form @param {Schema} root @param {any} value @returns {number} */
function score(form, root, value) {
  if (value === undefined) return 0;
  const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value === "bigint" || Number.isInteger(value) ? "integer" : typeof value;
  const wanted = kind(form);
  if (wanted && wanted !== type && !(wanted === "number" && type === "integer")) return -10;
  if (type !== "object") return options(form)?.some((it) => same(it, value)) === false ? -5 : 1;
  return Object.entries(form.properties ?? {}).reduce((sum, [name, property]) => {
    const fixed = resolve(property, root).const;
    if (fixed !== undefined) return sum + (same(fixed, own(value, name)) ? 10 : -10);
    return sum + (Object.hasOwn(value, name) ? 2 : (form.required ?? []).includes(name) ? -1 : 0);
  }, 1);
}
