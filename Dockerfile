# One minikafka broker, configured by KAFKA_* variables as Kafka's own images are.
# docker-compose build --build-arg COMPILED=1 compiles what a request runs through; that takes some minutes.
FROM python:3.11-slim AS build
ARG COMPILED=
RUN if [ -n "$COMPILED" ]; then \
        apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev; \
    fi
COPY pyproject.toml setup.py README.md LICENSE /usr/src/minikafka/
COPY minikafka /usr/src/minikafka/minikafka
RUN python3 -m venv /opt/minikafka \
    && /opt/minikafka/bin/pip install --no-cache-dir /usr/src/minikafka

FROM python:3.11-slim
RUN useradd --uid 1000 --create-home minikafka \
    && mkdir /var/lib/minikafka /var/lib/minikafka-secured \
    && chown minikafka: /var/lib/minikafka /var/lib/minikafka-secured
COPY --from=build /opt/minikafka /opt/minikafka
ENV PATH=/opt/minikafka/bin:$PATH KAFKA_LOG_DIRS=/var/lib/minikafka

USER minikafka
VOLUME /var/lib/minikafka
EXPOSE 9092
# The broker is process 1 and gets the signal itself: SIGTERM is Kafka's controlled shutdown.
STOPSIGNAL SIGTERM
ENTRYPOINT ["minikafka", "broker"]
