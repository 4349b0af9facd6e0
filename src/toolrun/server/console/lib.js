// @ts-check
/** The libraries, in one place: `vendor/` is made from package-lock.json by hatch_build.py. */
import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { Fragment, h, render } from "./vendor/preact.js";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { batch, computed, effect, signal } from "./vendor/signals.js";

/** Markup as a tagged template. What stands in `${}` becomes text or an attribute, never markup. */
export const html = htm.bind(h);
