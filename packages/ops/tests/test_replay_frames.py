"""Images in a replay: every frame is kept once, and what comes back is what came, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.errors import ShapeError
from rheos_ops.replay.frames import new_frames
from rheos_ops.replay.storage import Storage

shapes = st.sampled_from([(4, 5, 5), (5, 5, 4), (3, 4, 4), (4, 4, 3), (2, 4, 4), (1, 4, 4), (3, 3, 3), (5, 1, 2)])


def film(generator, count, size=(84, 84)):
    return generator.integers(0, 256, (count, *size), np.uint8)


def stacks_of(frames, depth=4):
    """An episode: rows of the newest `depth` frames, the first of which is repeated before it begins."""
    padded = np.concatenate([np.repeat(frames[:1], depth - 1, axis=0), frames])
    return np.stack([padded[start : start + depth] for start in range(len(frames))])


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=12),
    shapes,
    st.integers(0, 2**32 - 1),
)
def test_what_comes_back_is_what_came_whatever_the_images_are(batches, shape, seed):
    """Of so few values that frames are often equal by chance; and some rows do go on from the row before."""
    generator = np.random.default_rng(seed)
    storage, came = Storage(20), []
    axis = 0 if shape[0] <= shape[2] else 2
    for count, values in batches:
        rows = generator.integers(0, values, (count, *shape), np.uint8)
        stacks = np.moveaxis(rows, 1 + axis, 1)
        for row in range(1, count):
            if generator.random() < 0.6:
                stacks[row, :-1] = stacks[row - 1, 1:]
        try:
            storage.add({"observations": rows})
        except ShapeError as error:  # a first batch that needed few frames makes little room
            assert "frames of `observations` at once" in str(error)  # noqa: PT017
            continue
        came.extend(rows.copy())

        ids = generator.integers(storage.oldest, storage.end, 10)
        found = storage.gather(ids)["observations"]
        np.testing.assert_array_equal([came[row] for row in ids], found)
        assert found.dtype == np.uint8
        assert found.flags.c_contiguous

    assert len(came) == storage.end
    assert max(0, storage.end - 20) <= storage.oldest < max(storage.end, 1)


def test_episodes_of_stacked_frames_take_little_more_than_their_frames():
    generator = np.random.default_rng(0)
    storage, came = Storage(1_000), []
    for _ in range(9):  # two environments with 100 steps each; one of them begins another episode in between
        rows = np.concatenate([stacks_of(film(generator, count)) for count in (100, 60, 40)])
        storage.add({"observations": rows})
        came.append(rows)

    # a batch has 200 rows and, with the 3 frames before each of 3 episodes, 209 frames; and there is a tenth more room
    frames = -(-11 * 1_000 * 209 // (10 * 200))
    assert frames * 84 * 84 + 1_000 * 8 == storage.nbytes
    assert storage.end - storage.oldest == 1_000
    ids = np.arange(storage.oldest, storage.end)
    np.testing.assert_array_equal(np.concatenate(came)[ids], storage.gather(ids)["observations"])


def test_an_episode_begins_with_frames_of_its_own():
    generator = np.random.default_rng(0)
    first, second = (stacks_of(film(generator, 3, (4, 4))) for _ in range(2))

    found = new_frames(np.concatenate([first, second]))

    all_new, newest = [True] * 4, [False] * 3 + [True]
    assert [all_new, newest, newest, all_new, newest, newest] == found.is_new.tolist()
    assert found.total == 2 * 4 + 4


def test_frames_are_compared_as_a_whole():
    """One pixel, in the last of the frames that are compared, makes a row one that does not go on."""
    stacks = stacks_of(film(np.random.default_rng(0), 2, (8, 9)))

    stacks[1, 2, 7, 8] ^= 1

    assert new_frames(stacks).is_new.all()


def test_colour_images_are_kept_as_they_are():
    images = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), np.uint8)
    storage = Storage(30)

    for part in np.split(images, 4):
        storage.add({"observations": part})

    np.testing.assert_array_equal(images[10:], storage.gather(np.arange(10, 40))["observations"])
    # the images, a tenth more, and 8 bytes a row to know where they are
    assert 30 * 11 // 10 * 3 * 32 * 32 + 30 * 8 == storage.nbytes


def test_stacks_along_the_last_axis_are_found_too():
    stacks = stacks_of(film(np.random.default_rng(0), 50))
    storage = Storage(50)

    storage.add({"observations": np.ascontiguousarray(np.moveaxis(stacks, 1, -1))})

    np.testing.assert_array_equal(np.moveaxis(stacks, 1, -1), storage.gather(np.arange(50))["observations"])
    assert storage.nbytes < 1.2 * 53 * 84 * 84


def test_the_oldest_rows_end_when_frames_run_out_before_rows_do():
    generator = np.random.default_rng(0)
    storage = Storage(100)
    long = stacks_of(film(generator, 50, (4, 4)))  # 53 frames in 50 rows: room for 117
    storage.add({"observations": long})

    short = np.concatenate([stacks_of(film(generator, 1, (4, 4))) for _ in range(20)])  # 80 frames in 20 rows
    _, ended = storage.add({"observations": short})

    # 37 of the 117 are left for the first batch: its newest frames, which are those of its last 34 rows
    assert range(16) == ended
    assert (storage.oldest, storage.end) == (16, 70)
    expected = np.concatenate([long[16:], short])
    np.testing.assert_array_equal(expected, storage.gather(np.arange(16, 70))["observations"])


def test_more_frames_at_once_than_there_is_room_for_are_refused_and_change_nothing():
    generator = np.random.default_rng(0)
    storage = Storage(20)
    long = stacks_of(film(generator, 20, (4, 4)))
    storage.add({"observations": long})

    with pytest.raises(
        ShapeError, match=r"^replay got 40 frames of `observations` at once, of which it holds 26: raise"
    ):
        storage.add({"observations": np.concatenate([stacks_of(film(generator, 1, (4, 4))) for _ in range(10)])})

    np.testing.assert_array_equal(long, storage.gather(np.arange(20))["observations"])


@given(st.integers(9_000, 100_000))
def test_bytes_bound_everything_and_are_used(capacity_bytes):
    rows = {"observations": stacks_of(film(np.random.default_rng(0), 20, (8, 8))), "rewards": np.zeros(20, np.float32)}
    storage = Storage(10_000, capacity_bytes)

    storage.add(rows)

    one_more = 8 + 4 + 2 * 64  # bytes of a row with its frames, of which the tenth more may be the second
    assert capacity_bytes - one_more < storage.nbytes <= capacity_bytes


def test_several_columns_of_images_have_frames_of_their_own():
    generator = np.random.default_rng(0)
    camera, map_ = stacks_of(film(generator, 30, (6, 6))), stacks_of(film(generator, 30, (3, 3)), depth=2)
    storage = Storage(20)

    for part in range(3):
        rows = slice(10 * part, 10 * part + 10)
        storage.add({"observations.camera": camera[rows], "observations.map": map_[rows]})

    found = storage.gather(np.arange(10, 30))
    np.testing.assert_array_equal(camera[10:], found["observations.camera"])
    np.testing.assert_array_equal(map_[10:], found["observations.map"])
