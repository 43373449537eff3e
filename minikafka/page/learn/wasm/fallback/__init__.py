"""Modules that replace packages without a wheel for WebAssembly, under the names of those. The site
copies them to where Pyodide imports from; nothing else imports them."""
