"""The verbs as tools of the Model Context Protocol: schemas, bounded replies, the server.

Only the verb ``mcp`` uses it. Start reading at ``tools``, which derives each tool from its act.
"""
