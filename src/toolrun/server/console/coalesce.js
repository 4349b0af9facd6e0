// @ts-check
/** Work that many events ask for and that is done once for all of them. Knows nothing of what is done. */

/**
 * Done soon after it is asked for, never twice at the same time, and once more if it is asked for meanwhile: what it has read may
 * be older than the last event.
 * @param {() => Promise<unknown>} work its failure is nobody's news: the connection says what is wrong
 * @param {{gather?: number, pause?: number}} [how] milliseconds: that it waits for more to ask, and at least from one start to the next
 */
export function coalesced(work, { gather = 0, pause = 0 } = {}) {
  let timer = 0;
  let last = 0;
  let isBusy = false;
  let isAsked = false;
  let isOver = false;
  const ask = () => {
    if (isOver) return;
    isAsked = true;
    if (!isBusy) timer ||= setTimeout(run, Math.max(gather, last + pause - Date.now()));
  };
  const run = async () => {
    timer = 0;
    isBusy = true;
    isAsked = false;
    last = Date.now();
    await work().catch(() => undefined);
    isBusy = false;
    if (isAsked) ask();
  };
  const end = () => {
    isOver = true;
    clearTimeout(timer);
  };
  return { ask, end };
}
