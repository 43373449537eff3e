/** What the search of ProperDocs takes from a page: the way to the manual's root, and Escape. */

var base_url = document.documentElement.dataset.base;

addEventListener("keydown", (event) => {
  const query = document.getElementById("properdocs-search-query");
  if (event.key === "/" && document.activeElement !== query) {
    event.preventDefault();
    query.focus();
  } else if (event.key === "Escape") {
    query.value = "";
    query.dispatchEvent(new KeyboardEvent("keyup"));
  }
});
