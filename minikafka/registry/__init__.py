"""The schema registry: Confluent's REST API over the topic `_schemas` of any Kafka cluster.

`decisions` says what a request changes and `state` what the topic says; both are pure, as are the
rules of compatibility. `store` reads and writes the topic, `app` has the routes. Start there."""
