"""The hierarchical timing wheel: adding and cancelling time-outs in constant time."""

from minikafka.core.timer.bucket import TaskCounter, TimerTaskEntry, TimerTaskList
from minikafka.core.timer.timer import Timer
from minikafka.core.timer.wheel import ExpirationQueue, TimingWheel, WheelLevel

__all__ = [
    "ExpirationQueue",
    "TaskCounter",
    "Timer",
    "TimerTaskEntry",
    "TimerTaskList",
    "TimingWheel",
    "WheelLevel",
]
