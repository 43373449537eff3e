/** Tagged templates instead of JSX, and Preact's hooks: what every component imports. */

import { h, render, Component, Fragment } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { h, render, Component, Fragment };
export {
  useState, useEffect, useMemo, useRef, useCallback, useLayoutEffect, useId,
} from "../vendor/hooks.js";
