// @ts-check
/** A call as a command, as Python and as a request. Pure. */
import { inline } from "./format.js";

const SAFE = /^[\w@%+=:,./-]+$/;
const NAME = /^[A-Za-z_]\w*$/;

/** A word of a shell. @param {string} text */
export const quoted = (text) => (SAFE.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** @param {string} tool @param {any} args */
export function asCommand(tool, args) {
  const entries = Object.entries(args);
  const isPlain = entries.every(([name, value]) => NAME.test(name) && isPair(value));
  if (!isPlain) return `toolrun call ${quoted(tool)} ${quoted(inline(args))}`;
  return ["toolrun call", quoted(tool), ...entries.map(([name, value]) => quoted(typeof value === "string" ? `${name}=${value}` : `${name}:=${inline(value)}`))].join(" ");
}

/** Whether a value can be written as name=value. @param {any} value */
const isPair = (value) => typeof value !== "string" || !/^@|\n/.test(value);

/** @param {any} value @param {string} [indent] @returns {string} */
export function asPythonValue(value, indent = "") {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  const isList = Array.isArray(value);
  const parts = isList ? value.map((part) => asPythonValue(part, inner)) : Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}: ${asPythonValue(part, inner)}`);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  const line = `${open}${parts.join(", ")}${close}`;
  return line.length + indent.length <= 88 && !line.includes("\n") ? line : `${open}\n${parts.map((part) => `${inner}${part},\n`).join("")}${indent}${close}`;
}

/** @param {string} tool @param {any} args */
export function asPython(tool, args) {
  const call = `runtime.executor.execute(${JSON.stringify(tool)}, ${asPythonValue(args, "        ")})`;
  return `import asyncio\n\nfrom toolrun import Runtime\n\n\nasync def main():\n    async with Runtime.open("toolrun.toml") as runtime:\n        result = await ${call}\n        print(result.text)\n\n\nasyncio.run(main())`;
}

/** @param {string} tool @param {any} args @param {string} origin */
export function asCurl(tool, args, origin) {
  const url = `${origin}/api/tools/${encodeURIComponent(tool)}/call`;
  return `curl ${quoted(url)} \\\n  -H "Authorization: Bearer $TOOLRUN_SERVE_TOKEN" \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(inline({ arguments: args }))}`;
}
