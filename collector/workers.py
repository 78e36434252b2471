"""A thread for each of several things that may hang, so that one that does costs the others nothing."""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

# Of threads that begin at once only one can run Python, and they take it from each other at every call of the driver:
# eight cards that answer quickly cost twice as much as one after the other. Which of them hangs is not known before.
_TURN_SECONDS = 0.002

_Key = TypeVar("_Key")
_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Answers(Generic[_Key, _Answer]):
    """What came back in time, by key: answers and failures.

    `late` are those that were asked and have not answered, `busy` those that were not asked, since their last
    question has not come back.
    """

    answers: dict[_Key, _Answer]
    failures: dict[_Key, Exception]
    late: frozenset[_Key]
    busy: frozenset[_Key]


class Workers(Generic[_Key, _Question, _Answer]):
    """One daemon thread per key, made when it is first asked. One that is busy is not asked again: no pile-up."""

    def __init__(self, work: Callable[[_Key, _Question], _Answer], name: str) -> None:
        """`work` answers a question about a key and may raise; the threads are called `name` and their key."""
        self._work = work
        self._name = name
        self._desks: dict[_Key, _Desk[_Question, _Answer]] = {}
        self._answered = threading.Condition()

    def ask_all(self, questions: Mapping[_Key, _Question], timeout_s: float) -> Answers[_Key, _Answer]:
        """Ask all and wait until each has answered, at most `timeout_s` (real time) after the last was asked.

        The next is asked when one has answered, or after 2 ms. An answer that comes later than all is thrown away: it
        belongs to a question that is over.
        """
        answers: dict[_Key, _Answer] = {}
        failures: dict[_Key, Exception] = {}
        asked: dict[_Key, _Desk[_Question, _Answer]] = {}
        with self._answered:
            for key, question in questions.items():
                desk = self._desks.get(key) or self._start(key)
                if not desk.is_busy:
                    desk.ask(question)
                    asked[key] = desk
                    self._wait_for([desk], _TURN_SECONDS)
            self._wait_for(asked.values(), timeout_s)
            for key, desk in asked.items():
                if not desk.is_busy:
                    answers.update((key, answer) for answer in desk.answers)
                    failures.update((key, failure) for failure in desk.failures)
            late = frozenset(asked.keys() - answers.keys() - failures.keys())
        return Answers(answers, failures, late, frozenset(questions.keys() - asked.keys()))

    def close(self) -> None:
        """Let every thread end; one that hangs stays behind until the process ends."""
        with self._answered:
            for desk in self._desks.values():
                desk.questions.put(None)
            self._desks.clear()

    def _wait_for(self, desks: Collection["_Desk[_Question, _Answer]"], timeout_s: float) -> None:
        self._answered.wait_for(lambda: not any(desk.is_busy for desk in desks), timeout_s)

    def _start(self, key: _Key) -> "_Desk[_Question, _Answer]":
        desk = self._desks[key] = _Desk[_Question, _Answer]()
        threading.Thread(target=self._serve, args=(key, desk), name=f"{self._name} {key}", daemon=True).start()
        return desk

    def _serve(self, key: _Key, desk: "_Desk[_Question, _Answer]") -> None:
        while (asked := desk.questions.get()) is not None:
            answers: tuple[_Answer, ...] = ()
            failures: tuple[Exception, ...] = ()
            try:
                answers = (self._work(key, asked[0]),)
            except Exception as error:  # noqa: BLE001 - whatever one throws must stay with that one
                failures = (error,)
            with self._answered:
                desk.answers, desk.failures, desk.is_busy = answers, failures, False
                self._answered.notify_all()


class _Desk(Generic[_Question, _Answer]):
    """The desk of one thread: what it is asked, and its last answer or failure."""

    def __init__(self) -> None:
        self.questions: SimpleQueue[tuple[_Question] | None] = SimpleQueue()
        self.is_busy = False
        self.answers: tuple[_Answer, ...] = ()
        self.failures: tuple[Exception, ...] = ()

    def ask(self, question: _Question) -> None:
        self.is_busy = True
        self.questions.put((question,))
