// @ts-check
/** What the states of an MCP server mean. Pure. */

/** @param {string} state */
export const isUp = (state) => state === "connected";
