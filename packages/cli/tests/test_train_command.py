"""`rheos train`: settings are composed from files and overrides, and every mistake in them is one line."""

from __future__ import annotations

import logging
import re
import sys

import pytest

from rheos.errors import EnvironmentFailed
from rheos.plugins.loading import forget_installed
from rheos.runs.status import RunState
from rheos_cli.main import main

BASE = ["algo=walk", "backend=fake", "logger=none"]


def test_the_settings_come_from_files_and_overrides(runs):
    code = main(["train", *BASE, "env=pendulum", "env.num_envs=2", "stop.env_steps=1e3", "seed=7", "run_dir=out"])

    (config,) = runs.configs
    assert 0 == code
    assert ("walk", "Pendulum-v1", 2) == (config.algo_name, config.env.id, config.env.num_envs)
    assert (1000, 7, "out") == (config.stop.env_steps, config.seed, config.run_dir)


def test_a_setting_that_no_file_lists_can_be_set_without_a_plus(runs):
    main(["train", *BASE, "algo.learning_rate=0.5", "algo.hidden_sizes=[4]", "env.kwargs.length=3"])

    (config,) = runs.configs
    assert (0.5, (4,)) == (config.algo.learning_rate, config.algo.hidden_sizes)
    assert {"length": 3} == config.env.kwargs


def test_an_experiment_is_a_file_that_sets_anything(runs, install):
    exp = "# @package _global_\n# a long walk\ndefaults:\n  - override /algo: walk\nseed: 5\nstop: {seconds: 3}\n"
    install("long", files={"plugin.py": "", "conf/exp/long.yaml": exp})

    code = main(["train", "exp=long", "backend=fake", "logger=none", "stop.env_steps=9"])

    (config,) = runs.configs
    assert (0, "walk", 5, 3.0, 9) == (code, config.algo_name, config.seed, config.stop.seconds, config.stop.env_steps)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algo=wal"], "No algorithm 'wal'. Did you mean 'walk'? Installed: "),
        (["algo=impala"], "No algorithm 'impala' is installed. It is provided by rheos-algos-impala: pip install "),
        (["env=CartPole-v1"], "No environment 'CartPole-v1'. Did you mean 'cartpole'? Installed: "),
        (["algo=null"], "algo: not chosen. Write algo=<name>. Installed: "),
        (["exp=nothing"], "No exp "),
        (["algo.learning_rate=fast"], "algo.learning_rate: got 'fast' (str), expected a number > 0"),
        (["algo.learning_rate=-1"], "algo.learning_rate: got -1 (int), expected a number > 0"),
        (["algo.lr=1"], "algo.lr: no such setting. Did you mean 'algo.learning_rate'? Settings: "),
        (["+algo.lr=1"], "algo.lr: no such setting. Did you mean 'algo.learning_rate'? Settings: "),
        (["stop.env_step=5"], "stop.env_step: no such setting. Did you mean 'stop.env_steps'? Settings: "),
        (["seed=abc"], "seed: got 'abc' (str), expected an integer >= 0"),
        (["sed=1"], "sed: no such setting. Did you mean 'seed'? Settings: algo, env, "),
        (["algos=walk"], "algos: no such setting. Did you mean 'algo'? Settings: algo, env, "),
        (["colour/shade=red"], "colour/shade: no such setting or group. Groups: algo, env, "),
        (["hydra.nothing=1"], "hydra.nothing: no such setting or group. Groups: algo, env, "),
        (["seed=${nothing}"], "seed: Interpolation key 'nothing' not found"),
        (["algo..x=3"], "algo..x=3: cannot be read, expected key=value. A value with special characters needs quotes."),
        (["seed=[1"], "seed=[1: cannot be read, expected key=value. "),
        (["cartpole"], "cartpole: cannot be read, expected key=value. Did you mean env=cartpole?"),
        (["=5"], "=5: cannot be read, expected key=value. "),
        (["++=5"], "++=5: cannot be read, expected key=value. "),
        (["@x=5"], "@x=5: cannot be read, expected key=value. "),
        (["algo=5"], "No algorithm '5'. Installed: "),
        (["env={a:1}"], "No environment '{a:1}'. "),
        (["run_dir="], "run_dir: got '' (str), expected a string that is not empty or null"),
        (["device="], "device: got '' (str), expected a string that is not empty"),
        ([f"algo.learning_rate={10**400}"], f"algo.learning_rate: got 1{'0' * 59}...{'0' * 10} (int), expected a numb"),
        (["algo.learning_rate=1" + "0" * 5000], "algo.learning_rate=1000000000"),
        (["--foo"], "--foo: no such flag. Did you mean '--info'? `rheos train --help` shows them."),
        (["--multi"], "--multi: no such flag. Did you mean '--multirun'? "),
        (["--cfg", "all-of-it"], "argument -c/--cfg: invalid choice: 'all-of-it' "),
        (["--experimental-rerun", "x.pickle"], "--experimental-rerun reads a pickle, which Rheos never does; "),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("flags", [[], ["-m"]], ids=["one", "multirun"])
def test_a_mistake_is_one_line_exit_code_2_and_nothing_left(words, message, flags, runs, empty_folder, capsys):
    code = main(["train", *flags, *BASE, *words])

    out, err = capsys.readouterr()
    assert (2, "", 1) == (code, out, err.count("\n"))
    assert re.match(rf"rheos: (job 0 \(.*\): )?{re.escape(message)}", err)
    assert [] == runs.configs
    assert [] == list(empty_folder.iterdir())


@pytest.mark.parametrize("flag", ["-m", "--multirun"])
@pytest.mark.parametrize("position", range(5))
def test_a_flag_may_stand_anywhere_among_the_overrides(flag, position, runs):
    words = [*BASE, "seed=3,4"]

    code = main(["train", *words[:position], flag, *words[position:]])

    assert (0, [3, 4]) == (code, [config.seed for config in runs.configs])


def test_a_flag_with_a_value_may_stand_before_or_behind_the_overrides(runs, capsys):
    shown = []
    for words in (["--cfg", "job", *BASE], [*BASE, "--cfg", "job"], [*BASE, "--cfg=job"], ["-c", "job", *BASE]):
        assert 0 == main(["train", *words])
        shown.append(capsys.readouterr().out)

    assert "learning_rate" not in shown[0]  # the walk's file does not list it
    assert [shown[0]] * 4 == shown
    assert [] == runs.configs


@pytest.mark.parametrize("words", [["algo=walk"], [], ["-m", "seed=1,2"], ["algo=nothing"]], ids=" ".join)
def test_hydras_own_help_is_shown_beside_any_words(words, runs, empty_folder, capsys):
    code = main(["train", *words, "--hydra-help"])

    out, err = capsys.readouterr()
    assert (0, "") == (code, err)
    assert out.startswith("Hydra (")
    assert ([], []) == (runs.configs, list(empty_folder.iterdir()))


def test_several_values_are_what_a_multirun_is_for(runs, capsys):
    code = main(["train", *BASE, "seed=0,1"])

    assert (2, []) == (code, runs.configs)
    assert capsys.readouterr().err == (
        "rheos: seed=0,1: several values. Add -m for one job each, or write seed=[0,1] for a list.\n"
    )


def test_an_algorithm_must_be_chosen(runs, capsys):
    code = main(["train", "env=cartpole", "backend=fake"])

    assert 2 == code
    assert re.match(r"rheos: algo: not chosen\. Write algo=<name>\. Installed: (\w+, )*walk", capsys.readouterr().err)


def test_an_algorithm_whose_package_has_no_file_for_it_says_so(runs, install, capsys):
    install("bare", group="nogroup")

    code = main(["train", "algo=bare", "backend=fake"])

    message = "rheos: The algorithm 'bare' of package bare-package 1.2 comes without a file algo/bare.yaml"
    assert 2 == code
    assert capsys.readouterr().err.startswith(message)


def test_the_configuration_can_be_shown_instead_of_run(runs, capsys):
    code = main(["train", "--cfg", "job", *BASE, "algo.learning_rate=0.5"])

    out = capsys.readouterr().out
    assert 0 == code
    assert "learning_rate: 0.5" in out
    assert [] == runs.configs


def test_a_run_that_fails_is_exit_code_1_and_one_line_with_its_notes(runs, capsys):
    failure = EnvironmentFailed("rollout-1, environment 3, step 512: ZeroDivisionError: division by zero")
    failure.add_note("in stage 4: gather_sync [flow.py:21], item 17")
    runs.failures[0] = failure

    code = main(["train", *BASE])

    assert 1 == code
    assert capsys.readouterr().err == (
        "rheos: rollout-1, environment 3, step 512: ZeroDivisionError: division by zero\n"
        "  in stage 4: gather_sync [flow.py:21], item 17\n"
    )


def test_an_error_of_user_code_keeps_its_traceback(runs, capsys):
    runs.failures[0] = ZeroDivisionError("division by zero")

    code = main(["train", *BASE])

    err = capsys.readouterr().err
    assert 1 == code
    assert 1 == err.count("Traceback")
    assert err.endswith("rheos: ZeroDivisionError('division by zero')\n")


def test_an_interrupted_run_is_exit_code_130(runs):
    runs.state = RunState.INTERRUPTED

    assert 130 == main(["train", *BASE])


@pytest.mark.parametrize("code", [0, "bye", None])
def test_a_run_in_which_user_code_exits_has_failed(code, runs, capsys):
    runs.failures[0] = SystemExit(code)

    assert 1 == main(["train", *BASE])
    assert capsys.readouterr().err.endswith(f"rheos: SystemExit({code!r})\n")


def test_a_plugin_that_cannot_be_used_is_a_warning_and_the_run_goes_on(runs, install, capsys):
    install("lame", files={"__init__.py": "raise RuntimeError('lame')"})

    code = main(["train", *BASE])

    assert (0, 1) == (code, len(runs.configs))
    assert capsys.readouterr().err.startswith("rheos: warning: the plugin 'lame' of package lame-package 1.2 ")


def test_what_a_broken_plugin_would_have_offered_is_an_error_with_its_cause(runs, install, capsys):
    install("lame", files={"plugin.py": "import no_such_module", "conf/algo/limp.yaml": "name: limp"})

    code = main(["train", "algo=limp", "backend=fake"])

    assert 2 == code
    assert capsys.readouterr().err.splitlines()[-1] == (
        "rheos: No algorithm 'limp': the plugin 'lame' of package lame-package 1.2 could not be loaded: "
        "ModuleNotFoundError: No module named 'no_such_module'."
    )


def test_files_are_found_without_importing_the_modules_beside_them(runs, install):
    """Only the packages around the files are imported: `importlib.resources` cannot do without."""
    exp = "# @package _global_\nseed: 9\n"
    install("quiet", files={"plugin.py": "", "settings.py": "raise RuntimeError", "conf/exp/quiet.yaml": exp})

    code = main(["train", *BASE, "exp=quiet"])

    assert (0, 9) == (code, runs.configs[0].seed)
    assert {"quiet_package", "quiet_package.plugin", "quiet_package.conf"} >= {
        name for name in sys.modules if name.startswith("quiet_package")
    }


def test_a_package_of_files_that_cannot_be_imported_is_left_out(runs, install, tmp_path):
    """Hydra would end on it; it has no plugin whose failure would have told before."""
    install("crash", files={"__init__.py": "raise RuntimeError('crash')", "conf/exp/crash.yaml": "seed: 9\n"})
    entry_points = next(tmp_path.glob("site-packages/crash_package-*.dist-info/entry_points.txt"))
    entry_points.write_text("[rheos.configs]\ncrash = crash_package.conf\n")
    forget_installed()

    code = main(["train", *BASE])

    assert (0, 1) == (code, len(runs.configs))


def test_the_search_path_has_the_packages_by_name_and_logging_is_as_before(runs, capsys):
    before = logging.getLogger().handlers[:], logging.getLogger().level

    main(["train", "--info", "searchpath", *BASE])

    assert "pkg://walk_package.conf" in capsys.readouterr().out
    assert before == (logging.getLogger().handlers[:], logging.getLogger().level)


def test_quiet_prints_nothing_but_errors(runs, install, capsys):
    install("lame", files={"__init__.py": "raise RuntimeError('lame')"})
    runs.failures[1] = EnvironmentFailed("it fell")

    assert 1 == main(["train", "-q", "-m", *BASE, "seed=0,1"])

    out, err = capsys.readouterr()
    assert "" == out
    job = "1 (algo=walk backend=fake logger=none seed=1)"
    assert [f"rheos: job {job}: it fell", f"rheos: 1 of 2 jobs failed: {job}"] == err.splitlines()


@pytest.mark.parametrize(("flags", "count"), [(["--quiet"], 0), (["--plain"], 1), ([], 1)])
def test_a_quiet_run_has_nobody_who_shows_it(flags, count, runs, monkeypatch):
    made: list[bool] = []
    monkeypatch.setattr("rheos_cli.progress.make_progress", lambda *, is_plain: made.append(is_plain))

    assert 0 == main(["train", *BASE, *flags])

    assert [flags == ["--plain"]] * count == made


def test_a_flag_of_ours_that_is_misspelt_is_named(runs, capsys):
    assert 2 == main(["train", *BASE, "--quite"])

    assert capsys.readouterr().err.startswith("rheos: --quite: no such flag. Did you mean '--quiet'? ")
