"""The group coordinator: waits for members, for timers, and for the log to be replicated."""
