"""Frames become an MP4 file that is whole or not there."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from rheos.errors import UsageError
from rheos.runs.training import train
from rheos.testing.toy import toy_registry
from rheos_cli.main import main
from rheos_cli.video import Video, recording


class FakeWriter:
    def __init__(self):
        self.frames = []

    def append_data(self, frame):
        self.frames.append(frame)


def frame_of(height, width):
    return np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)


@pytest.mark.parametrize(("size", "written"), [((4, 6), (4, 6)), ((3, 6), (4, 6)), ((4, 5), (4, 6)), ((1, 1), (2, 2))])
def test_a_frame_of_an_odd_size_grows_by_a_pixel_like_its_neighbour(size, written):
    writer, frame = FakeWriter(), frame_of(*size)

    Video(writer).append(frame)

    (padded,) = writer.frames
    assert (*written, 3) == padded.shape
    assert np.array_equal(frame, padded[: size[0], : size[1]])
    assert np.array_equal(frame[-1, -1], padded[-1, -1])


def test_frames_that_change_their_size_are_refused():
    video = Video(FakeWriter())
    video.append(frame_of(4, 6))

    with pytest.raises(UsageError, match=r"frame 1 has shape \(6, 4, 3\), the first one \(4, 6, 3\)"):
        video.append(frame_of(6, 4))


def test_without_imageio_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio.v2", None)

    with pytest.raises(UsageError, match=r'pip install "rheos-cli\[video\]"$'), recording(tmp_path / "a.mp4", 30.0):
        pass

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "reason"), [("film.avi", r"ends in \.mp4"), ("no/film.mp4", "there is no folder")])
def test_a_file_that_cannot_be_one_is_refused(tmp_path, name, reason):
    with pytest.raises(UsageError, match=reason), recording(tmp_path / name, 30.0):
        pass


def fake_imageio(monkeypatch, close=lambda: None):
    """Stand in for imageio: a writer that makes its file at once."""

    def get_writer(path, **settings):
        open(path, "w").close()
        writer = FakeWriter()
        writer.close, writer.settings = close, settings
        return writer

    ffmpeg, imageio = ModuleType("imageio_ffmpeg"), ModuleType("imageio.v2")
    ffmpeg.get_ffmpeg_exe, imageio.get_writer = (lambda: "ffmpeg"), get_writer
    for name, module in (("imageio", ModuleType("imageio")), ("imageio.v2", imageio), ("imageio_ffmpeg", ffmpeg)):
        monkeypatch.setitem(sys.modules, name, module)


def test_what_fails_while_it_is_filmed_leaves_the_older_video_and_no_torn_one(tmp_path, monkeypatch):
    fake_imageio(monkeypatch)
    (tmp_path / "eval.mp4").write_text("older")

    with pytest.raises(ZeroDivisionError), recording(tmp_path / "eval.mp4", 30.0):
        raise ZeroDivisionError

    assert ["older"] == [path.read_text() for path in tmp_path.iterdir()]


def test_a_disk_that_is_full_is_one_line(tmp_path, monkeypatch):
    def close():
        raise OSError("No space\nleft on device")

    fake_imageio(monkeypatch, close)

    with (
        pytest.raises(UsageError, match=r"eval\.mp4 cannot be written: No space left on device$"),
        recording(tmp_path / "eval.mp4", 30.0),
    ):
        pass

    assert [] == list(tmp_path.iterdir())


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    registry = toy_registry("rheos-cli")
    monkeypatch.setattr("rheos.plugins.loading._installed", lambda: registry)
    monkeypatch.chdir(tmp_path)
    return train("toy", env="CartPole-v1", backend="toy", run_dir="run", stop={"env_steps": 200}).run_dir


def test_eval_films_an_episode_into_the_folder_of_the_run(run_dir, capsys):
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")

    code = main(["eval", str(run_dir), "--episodes", "1", "--video"])

    *_, length, video = capsys.readouterr().out.splitlines()
    reader = imageio.get_reader("run/eval.mp4")
    meta, frames = reader.get_meta_data(), reader.count_frames()
    reader.close()
    assert (0, "video   run/eval.mp4") == (code, video)
    assert (50.0, (600, 400)) == (meta["fps"], meta["size"])
    assert 1 + float(length.split()[1]) == frames  # one after the reset, and one after every step


def test_eval_says_what_to_install_before_it_plays(run_dir, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "imageio.v2", None)
    monkeypatch.setattr("rheos.runs.evaluation.frames_per_second", lambda run: 50.0)

    assert 2 == main(["eval", str(run_dir), "--video", "film.mp4"])

    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert 'pip install "rheos-cli[video]"' in err
