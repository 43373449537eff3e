"""The page of a cluster: a process that follows brokers over the wire and shows them in a browser.

It reads facts of any Kafka by the protocol, and the inside of our brokers from their debug
listeners. Only the verb ``ui`` starts it. Start reading at ``stage``, which merges what the sources
say into the messages that the browser reduces.
"""
