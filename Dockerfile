# One minikafka broker, configured by KAFKA_* variables as Kafka's own images are.
FROM python:3.11-slim

RUN useradd --uid 1000 --create-home minikafka \
    && mkdir /var/lib/minikafka /var/lib/minikafka-secured \
    && chown minikafka: /var/lib/minikafka /var/lib/minikafka-secured

COPY pyproject.toml setup.py README.md LICENSE /usr/src/minikafka/
COPY minikafka /usr/src/minikafka/minikafka
RUN python3 -m venv /opt/minikafka \
    && /opt/minikafka/bin/pip install --no-cache-dir /usr/src/minikafka
ENV PATH=/opt/minikafka/bin:$PATH KAFKA_LOG_DIRS=/var/lib/minikafka

USER minikafka
VOLUME /var/lib/minikafka
EXPOSE 9092
# The broker is process 1 and gets the signal itself: SIGTERM is Kafka's controlled shutdown.
STOPSIGNAL SIGTERM
ENTRYPOINT ["minikafka", "broker"]
