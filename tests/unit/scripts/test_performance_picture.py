"""The picture of the performance page has the rows of its tables, towards the better side."""

from __future__ import annotations

import pytest

from scripts.lib.bench.brokers import KAFKA, OURS
from scripts.lib.bench.report import BEGIN, END
from scripts.lib.performance_picture import COLORS, Bar, bars, draw

PAGE = f"""### Elsewhere (MB, less is better)

| | minikafka | Kafka | minikafka / Kafka | ahead |
| --- | --: | --: | --: | --: |
| not measured here | 1 | 2 | 0.50 | minikafka |

{BEGIN}

### Rate, five in flight (requests/s, more is better)

| | minikafka | Kafka | minikafka / Kafka | ahead | before |
| --- | --: | --: | --: | --: | --: |
| small | 3,000 (2 to 3) | 1,500 | 2.00 | minikafka | 1 |

### Stop (kill -15) (s, less is better)

| | minikafka | Kafka | minikafka / Kafka | ahead |
| --- | --: | --: | --: | --: |
| alone | 0.80 | 0.40 | 2.00 | Kafka |
| failed | 0.00 | 0.00 |  | equal |
| for comparison: before | 1 | 4 | 0.25 | minikafka |

### start, bare python

| | minikafka | bare python | ratio | aim |
| --- | --: | --: | --: | --: |
| start | 4 | 2 | 2.00 | 1 |

{END}
"""


def test_bars_lead_towards_the_better_side() -> None:
    assert list(bars(PAGE)) == [
        Bar("Rate, five in flight", "small", 2.0),
        Bar("Stop (kill -15)", "alone", 0.5),
    ]


@pytest.mark.parametrize(("side", "sign"), [(OURS, "minikafka is better"), (KAFKA, "Kafka is")])
def test_the_picture_names_both_sides(side: str, sign: str) -> None:
    picture = draw()
    assert sign in picture
    assert f'height="12" fill="{COLORS[side]}"' in picture
