"""Guards: what the authorizer decides about each API, around the handlers.

With an authorizer every route gets the guard of its API, which takes from the request what the
principal may not do, and puts the refused rows or the authorized operations into the response.
Handlers know nothing of it. Without an authorizer nothing is wrapped.

``guards.py`` has the table of the guards; start reading there. The other files hold the guards, by
the subjects of the handlers.
"""
