"""The state machine of a worker's runs: what is started, stopped, paused and told."""

from __future__ import annotations

import random

from ottla.connect.core.ids import State, TargetState, TaskId
from ottla.connect.core.restarts import RestartPolicy
from ottla.connect.core.runs import Effect, PauseRun, Phase, Runs, StartRun, StopRun, Tell, Wanted

ID = TaskId("orders", 0)


def wanted(revision: int = 1, target: TargetState = TargetState.STARTED) -> Wanted:
    return Wanted(revision, target, "1.0")


def started(effects: list[Effect]) -> StartRun:
    (found,) = [each for each in effects if isinstance(each, StartRun)]
    return found


def states(effects: list[Effect]) -> list[State]:
    return [each.state for each in effects if isinstance(each, Tell)]


def test_a_wanted_run_starts_and_is_told_when_it_runs() -> None:
    runs = Runs(RestartPolicy())
    start = started(runs.want({ID: wanted()}))
    assert runs.running(ID, start.number) == [Tell(ID, State.RUNNING, version="1.0", revision=1)]
    assert runs.want({ID: wanted()}) == []


def test_a_changed_run_is_stopped_before_its_successor_starts() -> None:
    runs = Runs(RestartPolicy())
    first = started(runs.want({ID: wanted(1)}))
    runs.running(ID, first.number)
    assert runs.want({ID: wanted(2)}) == [StopRun(ID, first.number)]
    second = started(runs.ended(ID, first.number, None, 0))
    assert second.number > first.number
    assert runs.running(ID, first.number) == []


def test_what_is_told_of_a_run_names_the_work_that_it_was_started_for() -> None:
    runs = Runs(RestartPolicy())
    first = started(runs.want({ID: wanted(1)}))
    runs.want({ID: wanted(2)})
    assert runs.revision(ID) == 1
    second = started(runs.ended(ID, first.number, None, 0))
    (told,) = runs.running(ID, second.number)
    assert isinstance(told, Tell) and told.revision == runs.revision(ID) == 2


def test_a_run_that_is_not_wanted_any_more_is_unassigned_when_it_has_ended() -> None:
    runs = Runs(RestartPolicy())
    start = started(runs.want({ID: wanted()}))
    assert runs.want({}) == [StopRun(ID, start.number)]
    assert runs.has_run(ID)
    assert states(runs.ended(ID, start.number, None, 0)) == [State.UNASSIGNED]
    assert runs.phase(ID) is None


def test_a_run_that_is_wanted_again_while_it_stops_starts_anew() -> None:
    runs = Runs(RestartPolicy())
    start = started(runs.want({ID: wanted()}))
    runs.want({})
    assert runs.want({ID: wanted()}) == []
    assert started(runs.ended(ID, start.number, None, 0)).number != start.number


def test_failed_runs_start_again_after_pauses_that_double_and_then_stay_failed() -> None:
    runs = Runs(RestartPolicy(3))
    start, now_ms, pauses = started(runs.want({ID: wanted()})), 0, []
    for _ in range(3):
        effects = runs.ended(ID, start.number, "a trace", now_ms)
        assert effects == [Tell(ID, State.RESTARTING, "a trace", "1.0", 1)]
        assert runs.next_ms is not None
        pauses.append(runs.next_ms - now_ms)
        assert runs.tick(runs.next_ms - 1) == []
        now_ms = runs.next_ms
        start = started(runs.tick(now_ms))
    assert pauses == [1_000, 2_000, 4_000]
    assert states(runs.ended(ID, start.number, "a trace", now_ms)) == [State.FAILED]
    assert runs.next_ms is None
    assert runs.phase(ID) is Phase.FAILED


def test_without_restarts_the_first_failure_stays() -> None:
    runs = Runs(RestartPolicy(0))
    start = started(runs.want({ID: wanted()}))
    assert states(runs.ended(ID, start.number, "a trace", 0)) == [State.FAILED]


def test_failures_of_an_hour_ago_count_no_more() -> None:
    runs = Runs(RestartPolicy(1))
    start = started(runs.want({ID: wanted()}))
    runs.ended(ID, start.number, "a trace", 0)
    start = started(runs.tick(1_000))
    assert states(runs.ended(ID, start.number, "a trace", 3_600_001)) == [State.RESTARTING]


def test_a_failure_that_is_not_the_runs_own_does_not_count() -> None:
    runs = Runs(RestartPolicy(1))
    start = started(runs.want({ID: wanted()}))
    for now_ms in range(0, 50_000, 5_000):
        assert states(runs.ended(ID, start.number, "killed", now_ms, counts=False)) == [State.RESTARTING]
        start = started(runs.tick(now_ms + 1_000))


def test_a_restart_gives_a_failed_run_all_its_attempts_again() -> None:
    runs = Runs(RestartPolicy(1))
    start = started(runs.want({ID: wanted()}))
    runs.ended(ID, start.number, "a trace", 0)
    start = started(runs.tick(1_000))
    runs.ended(ID, start.number, "a trace", 1_000)
    effects = runs.restart([ID])
    assert states(effects) == [State.RESTARTING]
    assert states(runs.ended(ID, started(effects).number, "a trace", 1_001)) == [State.RESTARTING]


def test_a_changed_configuration_starts_a_failed_run() -> None:
    runs = Runs(RestartPolicy(0))
    start = started(runs.want({ID: wanted(1)}))
    runs.ended(ID, start.number, "a trace", 0)
    assert runs.want({ID: wanted(1)}) == []
    assert started(runs.want({ID: wanted(2)}))


def test_a_pause_rests_the_run_and_a_resumption_lets_it_go_on() -> None:
    runs = Runs(RestartPolicy())
    start = started(runs.want({ID: wanted()}))
    runs.running(ID, start.number)
    assert runs.want({ID: wanted(target=TargetState.PAUSED)}) == [PauseRun(ID, start.number, True)]
    assert states(runs.paused(ID, start.number)) == [State.PAUSED]
    assert runs.want({ID: wanted()}) == [PauseRun(ID, start.number, False)]


def test_an_engine_that_ends_a_paused_run_begins_it_again() -> None:
    runs = Runs(RestartPolicy())
    start = started(runs.want({ID: wanted()}))
    runs.want({ID: wanted(target=TargetState.PAUSED)})
    assert states(runs.ended(ID, start.number, None, 0)) == [State.PAUSED]
    assert started(runs.want({ID: wanted()}))


def test_a_run_that_has_done_all_is_not_started_again_by_itself() -> None:
    runs = Runs(RestartPolicy())
    start = started(runs.want({ID: wanted()}))
    runs.running(ID, start.number)
    assert runs.ended(ID, start.number, None, 0) == []
    assert runs.want({ID: wanted()}) == []
    assert started(runs.restart([ID]))


def test_a_stopped_connector_is_told_once_and_starts_again() -> None:
    runs = Runs(RestartPolicy())
    start = started(runs.want({ID: wanted()}))
    assert runs.want({ID: wanted(target=TargetState.STOPPED)}) == [StopRun(ID, start.number)]
    assert states(runs.ended(ID, start.number, None, 0)) == [State.STOPPED]
    assert runs.want({ID: wanted(target=TargetState.STOPPED)}) == []
    assert started(runs.want({ID: wanted()}))


def test_no_two_runs_of_a_task_are_there_at_once_whatever_happens() -> None:
    for seed in range(200):
        drawn = random.Random(seed)
        runs = Runs(RestartPolicy(drawn.choice((0, 2, 10))))
        live: dict[TaskId, int] = {}
        ids = [TaskId("c", number) for number in range(3)]
        now_ms = 0
        pending: list[Effect] = []
        for _ in range(150):
            now_ms += drawn.randint(0, 3_000)
            match drawn.randint(0, 6):
                case 0 | 1:
                    chosen = {
                        id: wanted(drawn.choice((1, 2)), drawn.choice(list(TargetState)))
                        for id in ids
                        if drawn.random() < 0.8
                    }
                    pending = runs.want(chosen)
                case 2:
                    pending = runs.tick(now_ms)
                case 3:
                    pending = runs.restart([drawn.choice(ids)])
                case 4 if live:
                    id = drawn.choice(list(live))
                    pending = runs.running(id, live[id])
                case _ if live:
                    id = drawn.choice(list(live))
                    number = live.pop(id)
                    pending = runs.ended(id, number, drawn.choice((None, "trace")), now_ms)
                case _:
                    pending = []
            for effect in pending:
                if isinstance(effect, StartRun):
                    assert effect.id not in live, seed
                    live[effect.id] = effect.number
                elif isinstance(effect, StopRun):
                    assert live[effect.id] == effect.number
        runs.want({})
        for id, number in list(live.items()):
            runs.ended(id, number, None, now_ms)
        assert runs.want({}) == [] and not any(runs.has_run(id) for id in ids)
