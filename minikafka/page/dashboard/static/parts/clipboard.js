/**
 * Copying text, also where the browser grants no clipboard (a page over HTTP from another machine).
 * @module
 */

/**
 * @param {string} text
 * @returns {Promise<boolean>} whether the text was copied
 */
export async function copyText(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Without permission the old way below may still work.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  const parent = document.querySelector("dialog[open]") ?? document.body;
  parent.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
