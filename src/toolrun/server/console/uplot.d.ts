// For tsc: the types of what uplot.js passes on.
export { default } from "uplot";
