"""Video: frames of episodes as an MP4 file, through imageio and ffmpeg."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.errors import UsageError

if TYPE_CHECKING:
    from rheos.environments.watching import Frame

__all__ = ["Video", "recording"]

_MISSING = 'a video needs imageio and ffmpeg, which are not installed: pip install "rheos-cli[video]"'


class Video:
    """Appends frames to a file; an odd height or width, which the codec cannot take, grows by one pixel.

    Args:
        writer: has `append_data(frame)`.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._shape: tuple[int, ...] | None = None
        self.frames = 0

    def append(self, frame: Frame) -> None:
        """Add a frame, `[H, W, 3]` uint8.

        Raises:
            UsageError: if it is larger or smaller than the first one.
        """
        import numpy as np

        self._shape = self._shape or frame.shape
        if frame.shape != self._shape:
            raise UsageError(
                f"--video: frame {self.frames} has shape {frame.shape}, the first one {self._shape}: "
                "an environment whose frames change their size cannot be filmed."
            )
        height, width, _ = frame.shape
        self._writer.append_data(np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge"))
        self.frames += 1


@contextmanager
def recording(output: Path, frames_per_second: float) -> Iterator[Video]:
    """Write an MP4 file, which is whole or not there; an older one stays until the new one is complete.

    Args:
        output: the file, which ends in `.mp4`; its folder must be there.
        frames_per_second: how fast it is played.

    Raises:
        UsageError: if imageio or ffmpeg is not installed, or the file cannot be written.
    """
    if output.suffix != ".mp4":
        raise UsageError(f"--video: got {str(output)!r}, expected a name that ends in .mp4.")
    if not output.parent.is_dir():
        raise UsageError(f"--video: got {str(output)!r}, but there is no folder {str(output.parent)!r}.")
    temporary = output.with_name(f".{output.stem}.partial.mp4")
    writer = _writer(temporary, frames_per_second)
    try:
        try:
            yield Video(writer)
        finally:
            writer.close()
        temporary.replace(output)
    except OSError as error:  # ffmpeg is a process of its own, and says why in the error's text
        raise UsageError(f"--video: {output} cannot be written: {' '.join(str(error).split())}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _writer(path: Path, frames_per_second: float) -> Any:
    try:
        from imageio.v2 import get_writer

        import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no program ffmpeg
        raise UsageError(f"--video: {_MISSING}") from error
    logging.getLogger("imageio_ffmpeg").setLevel(logging.ERROR)
    return get_writer(
        str(path), fps=frames_per_second, codec="libx264", quality=8, macro_block_size=1, ffmpeg_log_level="error"
    )
