"""APIs of producers and transactions. The transaction coordinator decides."""
