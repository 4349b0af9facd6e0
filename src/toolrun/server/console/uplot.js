// @ts-check
/** The library of charts, which only the page Health loads. */
export { default } from "./vendor/uplot.js";
