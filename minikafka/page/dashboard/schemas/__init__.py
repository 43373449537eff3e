"""The schema registry on the page: what routes read of it.

``registry_api`` has the routes, ``subject_names`` says which topics use a subject. The acts are in
``acting.schema_acts``.
"""
