"""Tests that mostly wait: all begin with the first of them, each on a thread, and each waits for its own end."""

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

Scenario = Callable[..., None]
Begun = dict[Scenario, Future[None]]
Test = Callable[[Begun], None]

_SCENARIOS: dict[object, Scenario] = {}


def side_by_side(scenario: Scenario) -> Test:
    """The test that is this scenario, whose parameters are `folder`, an empty one of its own, and session fixtures.

    They come first, one behind the other, so that beside them no other test of their process runs.
    """

    def test(begun: Begun) -> None:
        begun[scenario].result()

    # Not by functools.wraps: pytest would ask the scenario for its fixtures.
    test.__name__, test.__qualname__ = scenario.__name__, scenario.__qualname__
    test.__module__, test.__doc__ = scenario.__module__, scenario.__doc__
    _SCENARIOS[test] = scenario
    return pytest.mark.timeout(1_200)(pytest.mark.xdist_group("side by side")(test))


def first(items: list[pytest.Item]) -> None:
    """Bring those tests to the front."""
    items.sort(key=lambda item: _scenario(item) is None)


@contextmanager
def begun_scenarios(request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> Iterator[Begun]:
    """Every scenario of which the test was asked for, at work."""
    chosen = [scenario for item in request.session.items if (scenario := _scenario(item)) is not None]
    with ThreadPoolExecutor(max(1, len(chosen))) as beside:
        yield {scenario: _begin(scenario, beside, request, folders) for scenario in chosen}


def _begin(
    scenario: Scenario, beside: ThreadPoolExecutor, request: pytest.FixtureRequest, folders: pytest.TempPathFactory
) -> Future[None]:
    names = [name for name in inspect.signature(scenario).parameters if name != "folder"]
    try:
        fixtures = {name: request.getfixturevalue(name) for name in names}
    except pytest.skip.Exception as lacking:
        skipped: Future[None] = Future()
        skipped.set_exception(lacking)
        return skipped
    return beside.submit(scenario, folder=folders.mktemp("scenario"), **fixtures)


def _scenario(item: pytest.Item) -> Scenario | None:
    return _SCENARIOS.get(item.function) if isinstance(item, pytest.Function) else None
