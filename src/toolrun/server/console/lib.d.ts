// For tsc: the types of what lib.js passes on, from the packages themselves.
import type { VNode } from "preact";

export { Fragment, h, render } from "preact";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal } from "@preact/signals";
export function html(strings: TemplateStringsArray, ...values: unknown[]): VNode;
