"""The PySpark data source ``minikafka``; nothing else imports PySpark."""
