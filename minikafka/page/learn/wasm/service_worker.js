/**
 * Keeps the site in the browser. ``SITE`` above names its files and a version of them all. A new
 * version is stored beside the old one and used once no tab has the old one open.
 */

const CACHE = `minikafka-${SITE.version}`;

addEventListener("install", (event) => event.waitUntil(keep()));
addEventListener("activate", (event) => event.waitUntil(forget()));
addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(respond(event.request));
});

async function keep() {
  const cache = await caches.open(CACHE);
  // The browser's own cache may have files of an earlier version: ask the server whether they hold.
  await cache.addAll(SITE.files.map((name) => new Request(encodeURI(name), { cache: "no-cache" })));
}

async function forget() {
  for (const name of await caches.keys()) {
    if (name.startsWith("minikafka-") && name !== CACHE) await caches.delete(name);
  }
}

/** @param {Request} request */
async function respond(request) {
  const url = new URL(request.url);
  if (url.pathname.endsWith("/")) url.pathname += "index.html";
  const cache = await caches.open(CACHE);
  return (await cache.match(url, { ignoreSearch: true })) ?? fetch(request);
}
