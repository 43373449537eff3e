"""APIs of records and their offsets."""
