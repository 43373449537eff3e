"""The chapters name the mechanisms of the mission table: each family of rows, row by row."""

from __future__ import annotations

import pytest

from minikafka.page.learn.chapters.table import TABLE
from scripts.lib.chapters import family, mission_rows, ranges, rows_by_chapter

pytestmark = pytest.mark.mission("LEARN-40")

# Families of mechanisms, all of whose rows are named by chapters but those of LEFT_OUT_ROWS.
IN_CHAPTERS = """
    PRO PRD FET ORD TW PUR DOP HB CEL CRS CDU CTX PSM RSM CCB CFO CSH LEL REA DEL PAR ASG CFG OPS
    CRD R G848 SHR GONE
"""
FAMILIES = IN_CHAPTERS.split()

# Families that no chapter tells, and why.
LEFT_OUT = {
    "SPK": "Spark is a client, which the simulation does not have",
    "SEC": "docs/how-to/security.md tells it; a simulated cluster has no TLS and no users",
    "DOOR": "hostile input, which docs/explanation/hostile-clients.md lists",
    "SAFE": "bounds under hostile or enormous load, which a small cluster does not reach",
    "MIX": "beside official Kafka, which does not run in the simulation",
    "IN": "the tools for tests of applications, which docs/how-to/testing.md tells",
    "GLASS": "the page itself, on which the chapters are read; docs/how-to/glass.md tells it",
    "LEARN": "learn mode itself",
    "ARW": "many records at once in the client, which docs/how-to/client.md tells",
    "CON": "the memory of thousands of connections; a recipe has few",
    "FAST": "repeated requests and checkpoints in slices, of which no message says anything",
    "SCALE": "thousands of topics, which a small cluster does not have",
    "RUN": "starts, memory and soaks of real processes",
    "REG": "the schema registry, a client of brokers, which docs/how-to/registry.md tells",
    "SPS": "the speed of Spark's data source, which docs/how-to/spark.md tells",
    "SPF": "Spark under failures, and its formats, which docs/how-to/spark.md tells",
    "FMT": "columns of Spark, which docs/how-to/spark.md tells",
    "SPV": "versions of PySpark, which docs/how-to/spark.md lists",
    "LAKE": "tables that Spark fills, which docs/how-to/spark-lakes.md tells",
    "FWD": "requests that brokers forward, which docs/reference/differences.md tells",
    "TV2": "a chapter shows transactions of the original version, request by request",
    "STR": "streams groups of Java applications, which docs/reference/differences.md tells",
    "TEL": "metrics of clients, which docs/reference/metrics.md tells",
    "CFAST": "how soon our clients go on, which docs/explanation/performance.md tells",
    "JUDGE": "what judges of clusters find, which docs/how-to/verify.md tells",
    "SPO": "the operation of queries of Spark, which docs/how-to/spark.md tells",
}

LEFT_OUT_ROWS = {
    "CRD-5": "the libraries with which the package is built",
    "FET-15": "which index files are written, of which no message says anything",
    "FET-16": "when a checkpoint is written, of which no message says anything",
    "FET-17": "which partitions a follower looks at: its requests are the same as without that",
    "FET-18": "into which memory records are read",
    "FET-21": "how a place in a log is found, of which no message says anything",
    "G848-5": "static members, whose consumers a recipe does not start",
    "G848-6": "regular expressions, to which the consumers of a recipe do not subscribe",
    "G848-9": "consumers of librdkafka and of Java, which do not run in the simulation",
    "G848-10": "a group that changes its protocol without members: that of the chapter has some",
    "G848-12": "brokers with the feature switched off: those of a recipe have it",
    "SHR-4": "administration of share groups, which docs/reference/differences.md tells",
    "SHR-5": "the deletion of a share group, which a recipe does not do",
    "SHR-6": "answers and records that are the same as official Kafka's, which cannot be seen here",
    "SHR-7": "Kafka's tools, which do not run in the simulation",
    "SHR-8": "settings of one group, which a recipe does not change",
    "SHR-9": "brokers with the feature switched off: those of a recipe have it",
    "SHR-12": "consumers of librdkafka and of Java, which do not run in the simulation",
    "SHR-17": "random lives of a share-partition: that of the chapter is told step by step",
    "SHR-20": "facts of brokers, which the verb debug and the page show",
    "SHR-21": "the page itself, on which the chapter is read",
    "SHR-22": "faults of share groups in tests, which docs/how-to/testing.md tells",
    "GONE-4": "needs a cluster whose other brokers are all down; that of the chapter goes on",
    "GONE-6": "responses that are held back, which the chapter's clients do not wait for",
    "CSH-15": "gaps of a producer, which the benchmark of failovers measures",
    "DOP-14": "needs a broker with two log directories; those of a recipe have one",
}


def test_every_family_is_in_a_chapter_or_left_out() -> None:
    families = {family(row) for row in mission_rows()}
    assert {*FAMILIES} | set(LEFT_OUT) == families, "a new family belongs into one of the lists"
    assert not {*FAMILIES} & set(LEFT_OUT)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_rows_of_a_family_are_named_by_chapters(name: str) -> None:
    named = {row for rows in rows_by_chapter().values() for row in rows}
    missing = {row for row in mission_rows() if family(row) == name} - named - set(LEFT_OUT_ROWS)
    assert not missing, f"no chapter names {ranges(missing)}"


def test_rows_that_are_left_out_have_no_chapter() -> None:
    named = {row for rows in rows_by_chapter().values() for row in rows}
    told = named & set(LEFT_OUT_ROWS)
    assert not told, "take these rows out of the list"
    assert set(LEFT_OUT_ROWS) <= set(mission_rows())
    assert {family(row) for row in named} <= {*FAMILIES} | set(LEFT_OUT)


def test_there_are_nineteen_chapters() -> None:
    assert sorted(TABLE) == [*range(1, 20)]


def test_ranges_of_rows_are_short() -> None:
    assert (
        ranges(["REA-3", "REA-1", "REA-2", "DEL-5", "DEL-7", "DEL-8"]) == "DEL-5, 7, 8, REA-1 to 3"
    )
