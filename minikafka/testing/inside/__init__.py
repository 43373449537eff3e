"""A cluster inside this process: real brokers on TCP ports, with files and ZooKeeper in memory.

Start reading in ``cluster``. ``minikafka.testing`` and verbs of the command line run it; brokers
do not know that they are inside.
"""
