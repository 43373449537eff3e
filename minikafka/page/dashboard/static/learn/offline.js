/** Keeps the static site in this browser, so that it opens without a network from the next time on. */

export function keepOffline() {
  navigator.serviceWorker?.register(new URL("../../service_worker.js", import.meta.url)).catch(
    (error) => console.warn(`The site is not kept for offline use: ${error.message}`));
}
