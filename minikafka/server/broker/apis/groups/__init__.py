"""APIs of consumer groups and their offsets. The group coordinator decides."""
