"""The manual of the static site: the project's documents as linked, searchable pages."""
