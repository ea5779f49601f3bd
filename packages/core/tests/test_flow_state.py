"""The state of a flow with its actors: what cannot be written is named, and sources begin anew alike here and there."""

from __future__ import annotations

import json
from functools import partial
from itertools import islice

import pytest

from rheos import from_actors, from_items, run
from rheos.errors import ActorDied, RheosWarning, RunFolderError, TreeError
from rheos.runs.flow_state import FlowState, NoState, refuse_other_flow
from rheos.scheduler.recovery import FailurePolicy
from rheos.streams.actors import Actor, ActorGroup
from rheos.trees import decode


class Episodic:
    """Counts from 0 in every episode, and knows how many it began; greeted with what it adds."""

    def __init__(self, index=0):
        self.began, self.position, self.added = 0, None, 0

    def greet(self, added):
        self.added = added

    def step(self):
        if self.position is None:
            self.began += 1
            self.position = 0
        self.position += 1
        return 1000 * self.began + 10 * self.position + self.added

    def begin_anew(self):
        self.position = None

    def state_dict(self):
        return {"began": self.began}

    def load_state_dict(self, state):
        self.began, self.position = state["began"], None


class Summing:
    """Adds up what it sees in an episode, and counts over all of them."""

    def __init__(self):
        self.total = self.count = 0

    def __call__(self, value):
        self.total, self.count = self.total + value, self.count + 1
        return value, self.total, self.count

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.total, self.count = 0, state["count"]


class Learner:
    def learn(self, item):
        return item

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


LEARNER = Actor("learner", Learner)


def episodes(gather):
    group = ActorGroup("source", 2, Episodic)
    source = from_actors(group, Episodic.step, first=(Episodic.greet, lambda _: 5))
    return gather(source.map(Summing())).ask(LEARNER, Learner.learn)


def through_a_file(flow_state, state):
    encoded = flow_state.encode(state, None)
    return decode(json.loads(json.dumps(encoded.structure)), encoded.arrays)


@pytest.mark.parametrize(
    "gather",
    [lambda source: source.gather_sync(), lambda source: source.gather_async(in_flight=3)],
    ids=["barrier", "as they are ready"],
)
@pytest.mark.parametrize("taken", [0, 1, 7])
def test_a_flow_that_begins_anew_goes_on_as_the_one_that_is_given_its_state(gather, taken):
    stream = episodes(gather)
    with run(stream) as flow, run(stream) as other:
        list(islice(flow, taken))
        here, there = FlowState(flow, stream, LEARNER), FlowState(other, stream, LEARNER)

        state = here.take()
        saved = through_a_file(here, state)
        here.begin_anew(state)
        there.load(saved)

        assert list(islice(flow, 20)) == list(islice(other, 20))


def test_sources_begin_new_episodes_and_their_functions_take_back_what_they_remember():
    stream = episodes(lambda source: source.gather_sync())
    with run(stream) as flow:
        before = next(flow)
        flow_state = FlowState(flow, stream, LEARNER)
        flow_state.begin_anew(flow_state.take())

        after = next(flow)

    assert [1015, 1015] == [value for value, _, _ in before]
    assert [2015, 2015] == [value for value, _, _ in after]
    assert [(2015, 2)] * 2 == [(total, count) for _, total, count in after]


class Endless:
    """Has no episodes, so it cannot begin anew."""

    def __init__(self, index=0):
        self.count = self.greeted = 0

    def greet(self, added):
        self.greeted += 1

    def step(self):
        self.count += 1
        return self.count, self.greeted

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def test_a_source_without_episodes_is_greeted_again_and_goes_on():
    group = ActorGroup("source", 1, Endless)
    stream = from_actors(group, Endless.step, first=(Endless.greet, lambda _: 5)).gather_sync()
    with run(stream) as flow:
        before = next(flow)
        flow_state = FlowState(flow, stream, group[0])
        flow_state.begin_anew(flow_state.take())

        after = next(flow)

    assert [((1, 1),), ((2, 2),)] == [before, after]


def test_an_error_while_an_actor_begins_anew_is_its_own():
    class Broken(Endless):
        def begin_anew(self):
            return self.nothing

    group = ActorGroup("source", 1, Broken)
    stream = from_actors(group, Broken.step).gather_sync()
    with run(stream) as flow:
        flow_state = FlowState(flow, stream, group[0])
        with pytest.raises(AttributeError, match="nothing"):
            flow_state.begin_anew(flow_state.take())


class Wrapping(Endless):
    """Lets an object do what it cannot do itself."""

    inner = object()

    def begin_anew(self):
        self.inner.begin_anew()


def test_a_lack_further_within_is_no_lack_of_the_actor_itself():
    group = ActorGroup("source", 1, Wrapping)
    stream = from_actors(group, Wrapping.step).gather_sync()
    with run(stream) as flow:
        flow_state = FlowState(flow, stream, group[0])
        with pytest.raises(AttributeError, match="'object' object has no attribute 'begin_anew'"):
            flow_state.begin_anew(flow_state.take())


def test_a_state_dict_that_calls_another_one_that_is_not_there_is_no_lack_of_its_own():
    class WithInner(Learner):
        def state_dict(self):
            return object().state_dict()

    actor = Actor("learner", WithInner)
    stream = from_items([1, 2]).ask(actor, WithInner.learn)

    with run(stream) as flow, pytest.raises(AttributeError, match="'object' object has no attribute 'state_dict'"):
        FlowState(flow, stream, actor).take()


def test_an_actor_without_a_state_is_warned_of_at_the_start():
    stream = from_actors(ActorGroup("source", 1, Stateless), Stateless.step).gather_sync()

    with run(stream) as flow, pytest.warns(RheosWarning, match=r"cannot be resumed: source-0 has no state_dict\(\)"):
        FlowState(flow, stream, Actor("source-0", Stateless)).refuse_what_cannot_be_saved()


class Stateless:
    def __init__(self, index=0):
        pass

    def step(self):
        return 1


# sources that fail


class Failing(Episodic):
    """Dies in its second step, or in what it is asked beside the flow."""

    def __init__(self, where, index):
        super().__init__(index)
        self.fails_in = where if index == 1 else ""
        self.steps = 0

    def step(self):
        self.steps += 1
        if self.fails_in == "step" and self.steps == 2:
            raise ActorDied("source-1 is gone")
        return super().step()

    def begin_anew(self):
        if self.fails_in == "begin_anew":
            raise ValueError("cannot begin")
        super().begin_anew()

    def state_dict(self):
        if self.fails_in == "state_dict":
            raise ValueError("cannot tell")
        return super().state_dict()


def failing(where):
    group = ActorGroup("source", 2, partial(Failing, where))
    return (
        from_actors(group, Failing.step, first=(Failing.greet, lambda _: 5)).gather_async().ask(LEARNER, Learner.learn)
    )


@pytest.mark.parametrize(
    "policy",
    [FailurePolicy(1, 3600.0), FailurePolicy(1, 0.0, min_healthy=1)],
    ids=["waits for its restart", "given up"],
)
def test_a_source_that_is_down_is_left_out_while_the_others_begin_anew(policy, warned):
    stream = failing("step")
    with run(stream, failures=policy) as flow:
        list(islice(flow, 8))  # the second source has failed by then, as often as it may
        flow_state = FlowState(flow, stream, LEARNER, restarts_sources=True)

        state = flow_state.take()
        has_reset = flow_state.begin_anew(state)
        after = list(islice(flow, 3))

    assert ["source-1"] == [name for name, own in state["actors"].items() if own is None]
    assert has_reset
    assert [2015, 2025, 2035] == after
    assert all("source-1" in text for text in warned)


@pytest.mark.parametrize("where", ["state_dict", "begin_anew"])
def test_a_source_that_fails_while_it_is_asked_is_left_out_where_sources_are_made_anew(where):
    stream = failing(where)
    with run(stream, failures=FailurePolicy(1, 0.0)) as flow:
        flow_state = FlowState(flow, stream, LEARNER, restarts_sources=True)

        state = flow_state.take()
        flow_state.begin_anew(state)

    assert (where == "state_dict") == (state["actors"]["source-1"] is None)
    assert {"began": 0} == state["actors"]["source-0"]


@pytest.mark.parametrize("where", ["state_dict", "begin_anew"])
def test_a_source_that_fails_while_it_is_asked_ends_the_run_where_no_source_is_made_anew(where):
    stream = failing(where)
    with run(stream) as flow:
        flow_state = FlowState(flow, stream, LEARNER)
        with pytest.raises(ValueError, match="cannot"):
            flow_state.begin_anew(flow_state.take())


def test_an_actor_without_a_state_is_named():
    class Stateless:
        def learn(self, item):
            return item

    actor = Actor("learner", Stateless)
    stream = from_items([1, 2]).ask(actor, Stateless.learn)

    with run(stream) as flow, pytest.raises(NoState, match=r"learner has no state_dict\(\)"):
        FlowState(flow, stream, actor).take()


class Opaque:
    """An item that no file can hold."""


class Giving(Episodic):
    def step(self):
        return Opaque()


def test_what_is_in_flight_and_cannot_be_written_is_named():
    group = ActorGroup("source", 1, Giving)
    stream = from_actors(group, Giving.step).gather_async(in_flight=2).map(id)

    with run(stream) as flow:
        next(flow)
        flow_state = FlowState(flow, stream, group[0])
        with pytest.raises(TreeError, match=r"(source-0 gave|gather_async.*\]) cannot be saved: .*got Opaque"):
            flow_state.encode(flow_state.take(), None)


def test_a_function_at_the_actors_whose_state_cannot_be_written_is_refused_before_anything_runs():
    class Hoarding(Summing):
        def state_dict(self):
            return {"seen": {1}}

    group = ActorGroup("source", 1, Episodic)
    stream = from_actors(group, Episodic.step).map(Hoarding()).gather_sync()

    with run(stream) as flow, pytest.raises(TreeError, match=r"stage 2: map at the actor\(.*Hoarding\).*seen: got set"):
        FlowState(flow, stream, group[0]).refuse_what_cannot_be_saved()


def test_a_flow_with_fewer_stages_is_another_one():
    with pytest.raises(RunFolderError, match="it has 1 stages, and had 2"):
        refuse_other_flow(from_items([1]), ["from_items", "map(f)"])
