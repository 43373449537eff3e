"""The PySpark data source and pipeline (to come; nothing else imports PySpark)."""
