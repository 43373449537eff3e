"""What the page does to a cluster: acts become commands, which run as processes.

The page's server, `minikafka mcp` and `up` call it. Start reading at ``acts``, the table of all
acts; ``supervision`` is the link by which `up` stops and starts brokers for the page.
"""
