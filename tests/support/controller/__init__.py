"""Controllers for tests, on one znode tree in memory.

``controller_lab`` runs whole controllers; ``controller_states`` has only their pure state.
"""
