"""Composition: Hydra finds and joins the configuration files of all packages; its errors become one clear line."""

from __future__ import annotations

import importlib.resources
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rheos.errors import UsageError
from rheos.plugins.sources import ConfigPackage
from rheos_cli.composition_errors import cannot_be_read, in_one_line
from rheos_cli.groups import GROUPS
from rheos_cli.installed import loaded_config_packages

__all__ = ["InstalledConfigs", "compose", "plain_settings", "run_hydra", "sweep_dir", "usable_config_packages"]

_MAIN = "rheos_cli.conf"
_ROOT = "config"
_VERSION_BASE = "1.3"
_HYDRA_ERRORS = (HydraException, OmegaConfBaseException, YAMLError, ValueError, OSError)


class InstalledConfigs(SearchPathPlugin):
    """Adds the configuration files of every installed package to Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append `pkg://<package>` for every entry point in the group `rheos.configs`."""
        for package in usable_config_packages():
            if package.package != _MAIN:
                search_path.append(provider=package.origin.package, path=f"pkg://{package.package}")


def usable_config_packages() -> list[ConfigPackage]:
    """Return the packages of configuration files that Hydra can read, without those whose plugin cannot be used.

    Hydra reads files through `importlib.resources`, which imports the package that holds them and the ones around
    it, never the plugin's other modules. A package that fails there would end every command, so it is tried first.
    """
    return [package for package in loaded_config_packages() if _is_readable(package)]


def run_hydra(flags: Sequence[str], words: Sequence[str], job: Callable[[DictConfig], Any]) -> None:
    """Run `job` once, or once for each job of a multirun, as Hydra's own command line would.

    Args:
        flags: Of Hydra; see `rheos_cli.hydra_flags.flags_of`.
        words: Overrides, as typed.
        job: Gets the composed configuration; Hydra prints what it raises, so it must catch everything.

    Raises:
        UsageError: for whatever cannot be composed, and for a folder that Hydra cannot make, in one line.
    """
    _prepare()
    arguments = [*flags, *(open_struct(word) for word in words)]
    # Hydra exits after its help
    with _process_state(["rheos train", *arguments]), _clear_errors(words), suppress(SystemExit):
        hydra.main(config_path=f"pkg://{_MAIN}", config_name=_ROOT, version_base=_VERSION_BASE)(job)()


def compose(words: Sequence[str], root: str = _ROOT) -> dict[str, Any]:
    """Return the settings that a file and some overrides give, as plain data; raises as `run_hydra` does.

    Args:
        words: overrides, as typed.
        root: the file to start from, such as `logger/tensorboard` for the settings of one choice alone.
    """
    _prepare()
    with _clear_errors(words), hydra.initialize_config_module(_MAIN, version_base=_VERSION_BASE):
        return plain_settings(hydra.compose(root, overrides=[open_struct(word) for word in words]))


def plain_settings(config: DictConfig) -> dict[str, Any]:
    """Return a composed configuration as plain data.

    Raises:
        UsageError: if a reference in it leads nowhere, or a value is missing.
    """
    with _clear_errors(()):
        return OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore[return-value]


def open_struct(word: str) -> str:
    """Return an override of a setting so that it reaches our own check also where no file lists the setting.

    Hydra refuses a key that no YAML file has, before anybody knows that it is a setting, or a near miss of one.
    With `++`, it takes every key, and the dataclass of the algorithm decides.

    Raises:
        UsageError: if the word has no key, which Hydra's grammar takes.

    Example:
        >>> open_struct("algo.lr=1"), open_struct("algo=ppo"), open_struct("~exp")
        ('++algo.lr=1', 'algo=ppo', '~exp')
    """
    if not re.match(r"[+~]*[^=+~@]", word):
        raise UsageError(cannot_be_read(word))
    match = re.match(r"([A-Za-z_][\w.]*)=", word)
    if not match or match[1] in GROUPS or match[1].split(".")[0] == "hydra":
        return word
    return f"++{word}"


def sweep_dir(run_dir: str | None) -> str:
    """Return where a multirun puts the folders of its jobs: `run_dir`, or by default a folder of this second."""
    from datetime import datetime

    return str(run_dir or Path("runs", "multirun", datetime.now().strftime("%Y%m%d-%H%M%S")))


def _prepare() -> None:
    Plugins.instance().register(InstalledConfigs)
    OmegaConf.register_new_resolver("rheos_sweep_dir", sweep_dir, use_cache=True, replace=True)


def _is_readable(package: ConfigPackage) -> bool:
    try:
        importlib.resources.files(package.package)
    except (Exception, SystemExit):  # whatever the package's own code raises
        return False
    return True


@contextmanager
def _clear_errors(words: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except _HYDRA_ERRORS as error:
        raise UsageError(in_one_line(error, words)) from error


@contextmanager
def _process_state(argv: list[str]) -> Iterator[None]:
    """Give Hydra its command line, and have it raise its errors rather than print them and exit.

    Some of its flags turn on logging for the whole process; that is taken back as well.
    """
    before, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = argv, "1"
    try:
        yield
    finally:
        sys.argv = before
        root.handlers[:] = handlers
        root.setLevel(level)
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error
