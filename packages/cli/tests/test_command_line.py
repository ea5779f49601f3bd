"""`rheos`: commands are found, wrong words are one line and exit code 2, and what is quick stays light."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rheos.plugins.loading import forget_installed
from rheos_cli.main import COMMANDS, main


def test_help_shows_every_command(capsys):
    code = main(["--help"])

    out = capsys.readouterr().out
    assert 0 == code
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert [*COMMANDS, "-h,", "-V,"] == listed


def test_no_words_at_all_show_the_help(capsys):
    assert 0 == main([])
    assert "usage: rheos <command>" in capsys.readouterr().out


def test_the_version_is_that_of_core(capsys):
    assert 0 == main(["--version"])
    assert capsys.readouterr().out.startswith("rheos 0.")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    code = main([command, "--help"])

    assert 0 == code
    assert f"usage: rheos {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["lst"],
            "rheos: No command 'lst'. Did you mean 'list'? "
            "Commands: train, resume, eval, export, plot, list, info, graph, check-env.",
        ),
        (["list", "--jsn"], "rheos: cannot understand '--jsn'; `rheos list --help` shows how it is used"),
        (
            ["list", "alg"],
            "rheos: No group 'alg'. Did you mean 'algo'? Groups: algo, env, backend, executor, logger, exp.",
        ),
        (["info"], "rheos: the following arguments are required: name; `rheos info --help` shows how it is used"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(words, message, capsys):
    code = main(words)

    assert (2, "", f"{message}\n") == (code, *capsys.readouterr())


def test_ctrl_c_is_exit_code_130(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("rheos_cli.commands.list.run", interrupted)

    assert 130 == main(["list"])
    assert "rheos: interrupted\n" == capsys.readouterr().err


def test_list_shows_names_packages_and_summaries_by_group(install, capsys):
    install("walk")

    code = main(["list"])

    out = capsys.readouterr().out
    assert 0 == code
    assert "walk" in out
    assert "walk-package 1.2" in out
    assert "an algorithm of a test" in out
    assert ["algo", "env", "backend", "executor", "logger", "exp"] == [
        line.partition(":")[0] for line in out.splitlines() if line and not line.startswith(" ")
    ]


def test_list_as_json_can_be_read(install, capsys):
    install("walk")

    main(["list", "algorithms", "--json"])

    found = json.loads(capsys.readouterr().out)
    walk = {"name": "walk", "summary": "an algorithm of a test", "package": "walk-package", "version": "1.2"}
    assert walk in found["algo"]
    assert {"algo", "warnings"} == set(found)


def test_list_warns_of_what_cannot_be_used_and_goes_on(install, capsys):
    install("lame", files={"plugin.py": "import no_such_module"})

    code = main(["list"])

    out, err = capsys.readouterr()
    assert 0 == code
    assert "inline" in out
    assert "lame" not in out
    assert err == (
        "rheos: warning: the plugin 'lame' of package lame-package 1.2 could not be loaded: "
        "ModuleNotFoundError: No module named 'no_such_module'\n"
    )


def test_an_executor_of_ours_that_is_not_installed_is_listed_with_what_to_install(monkeypatch, capsys):
    monkeypatch.setenv("RHEOS_DISABLED_PLUGINS", "rheos-executor-ray")

    code = main(["list", "executors"])

    lines = capsys.readouterr().out.splitlines()
    assert 0 == code
    assert ["executor:", "inline", "threads", "not installed: ray (pip install rheos-executor-ray)"] == [
        lines[0],
        *(line.split()[0] for line in lines[1:-1]),
        lines[-1].strip(),
    ]


def test_disabled_plugins_are_not_listed(install, monkeypatch, capsys):
    install("walk")
    monkeypatch.setenv("RHEOS_DISABLED_PLUGINS", "walk, torch")
    forget_installed()

    main(["list"])

    out, err = capsys.readouterr()
    assert "walk" not in out
    assert "inline" in out
    assert "" == err


def test_info_shows_the_package_and_every_setting_with_default_range_unit_and_help(install, capsys):
    install("walk")

    code = main(["info", "walk"])

    out = capsys.readouterr().out
    assert 0 == code
    assert "the plugin 'walk' of package walk-package 1.2" in out
    assert ["algo.learning_rate", "0.1", "float", ">", "0", "[1/update]", "step", "size"] in [
        line.split() for line in out.splitlines()
    ]


def test_info_as_json_has_the_settings(install, capsys):
    install("walk")

    main(["info", "walk", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert ("algo", "walk", "walk-package", "1.2") == tuple(found[k] for k in ("group", "name", "package", "version"))
    assert {"learning_rate": 0.1, "hidden_sizes": [8, 8]} == {s["name"]: s["default"] for s in found["settings"]}


def test_info_of_a_file_shows_what_is_in_it(capsys):
    main(["info", "pendulum"])

    assert "id: Pendulum-v1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gim", "Nothing is called 'gim'. Did you mean 'gym'? Installed: "),
        ("impala", "No algorithm 'impala' is installed. It is provided by rheos-algos-impala: pip install"),
        ("lame", "No algorithm 'lame': the plugin 'lame' of package lame-package 1.2 could not be loaded: "),
    ],
)
def test_info_of_a_name_that_cannot_be_used_says_why(name, message, install, capsys):
    install("lame", files={"plugin.py": "1 / 0"})

    code = main(["info", name])

    assert 2 == code
    assert capsys.readouterr().err.startswith(f"rheos: {message}")


@pytest.mark.parametrize("words", ["--help", "--version", "list", "list --json", "info gym", "train --help"])
def test_what_is_quick_imports_nothing_heavy(words):
    program = (
        "import sys; from rheos_cli.main import main\n"
        f"code = main({words.split()})\n"
        "heavy = {'numpy', 'gymnasium', 'torch', 'hydra', 'omegaconf', 'yaml', 'rich', 'matplotlib'}\n"
        "print(code, *sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "0" == done.stderr.splitlines()[-1]
