"""Who may use the page: roles, accounts, sign-ins, and the log of what they did.

``roles.py`` has the one table of what each role may do. ``accounts.py`` parses the files of tokens
and users; ``doors.py`` finds out who sends a request. Start reading there.
"""
