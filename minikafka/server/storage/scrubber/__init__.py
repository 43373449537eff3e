"""The scrubber, which reads sealed segments slowly and looks for damaged batches.

The log manager owns it. Start reading in ``scrubber``; ``core/log/scrubbing`` has the checks.
"""
