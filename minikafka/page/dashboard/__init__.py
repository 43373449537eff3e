"""The page of a cluster: a process that follows brokers over the wire and shows them in a browser.

It reads facts of any Kafka by the protocol, and the inside of our brokers from their debug
listeners. Only the verb ``ui`` starts it. Start reading at ``stage``, which merges what the sources
say into the messages that the browser reduces.

``broker_source`` follows a debug listener, ``cluster_source`` looks at any Kafka by the protocol,
and ``follow`` runs both while somebody reads. They reach the outside through the World, so they
follow a simulated cluster, too. The page runs beside the brokers, so that it can never slow one
down.
"""
