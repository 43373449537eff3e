"""The transaction coordinator's decisions."""
