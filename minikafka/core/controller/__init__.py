"""The controller's decisions: state machines, elections, placement, topic deletion."""
