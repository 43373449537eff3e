"""Models that make histories for the judges of `minikafka verify`."""
