"""config/prometheus.yml scrapes the brokers of `minikafka up` and labels each with its id."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from minikafka.cli.processes import up

CONFIG = Path(__file__).resolve().parents[4] / "config" / "prometheus.yml"


@pytest.fixture
def job() -> Any:
    (job,) = yaml.safe_load(CONFIG.read_text())["scrape_configs"]
    return job


def relabelled(address: str, rules: list[dict[str, Any]]) -> dict[str, str]:
    """Return the labels that Prometheus gives a target; its expressions match whole values."""
    labels = {"__address__": address}
    for rule in rules:
        assert rule.keys() == {"source_labels", "regex", "target_label", "replacement"}
        value = ";".join(labels.get(name, "") for name in rule["source_labels"])
        if re.fullmatch(rule["regex"], value):
            labels[rule["target_label"]] = rule["replacement"]
    return labels


def test_prometheus_scrapes_each_broker_of_up_under_its_id(job: Any) -> None:
    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    args = parser.parse_args([])
    first = args.base_port + up.debug_offset(args.brokers)
    (targets,) = job["static_configs"]
    assert targets["targets"] == [f"127.0.0.1:{first + i}" for i in range(args.brokers)]
    cluster = targets["labels"]["strimzi_io_cluster"]
    for broker_id, address in enumerate(targets["targets"], start=1):
        labels = relabelled(address, job["relabel_configs"])
        assert labels["kubernetes_pod_name"] == f"{cluster}-kafka-{broker_id}"
