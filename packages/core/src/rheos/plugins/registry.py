"""Registry: what the installed plugins offer, by kind and name, and why an offer cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from rheos.errors import PluginError, RheosWarning, UnknownName, did_you_mean
from rheos.plugins.first_party import PROVIDERS
from rheos.plugins.specs import (
    CONTRACT_VERSION,
    AlgorithmSpec,
    BackendSpec,
    EnvironmentSpec,
    ExecutorSpec,
    LoggerSpec,
    Spec,
)

if TYPE_CHECKING:
    import pluggy

    from rheos.plugins.sources import Origin

__all__ = ["Failure", "Kind", "Offer", "PluginWarning", "Registry"]

S = TypeVar("S", bound=Spec)


class PluginWarning(RheosWarning):
    """An installed plugin cannot be used; everything else goes on."""


class Kind(StrEnum):
    """What a plugin can offer."""

    ALGORITHM = "algorithm"
    ENVIRONMENT = "environment"
    BACKEND = "backend"
    EXECUTOR = "executor"
    LOGGER = "logger"

    @property
    def hook(self) -> str:
        """The hook that returns the offers of this kind."""
        return f"rheos_{self.value}s"

    @property
    def group(self) -> str:
        """The key under which users choose one: `algo=ppo`."""
        return {"algorithm": "algo", "environment": "env"}.get(self.value, self.value)

    @property
    def spec_class(self) -> type[Spec]:
        """The class of its specs."""
        return _SPEC_CLASSES[self]


_SPEC_CLASSES: Mapping[Kind, type[Spec]] = {
    Kind.ALGORITHM: AlgorithmSpec,
    Kind.ENVIRONMENT: EnvironmentSpec,
    Kind.BACKEND: BackendSpec,
    Kind.EXECUTOR: ExecutorSpec,
    Kind.LOGGER: LoggerSpec,
}


@dataclass(frozen=True)
class Offer:
    """A spec, and the plugin that offers it."""

    kind: Kind
    spec: Spec
    origin: Origin


@dataclass(frozen=True)
class Failure:
    """A plugin that cannot be used."""

    origin: Origin
    cause: str
    """Such as `could not be loaded: ImportError: No module named 'foo'`."""
    names: frozenset[tuple[str, str]] = frozenset()
    """What it would have offered as far as one can tell: (group, name) of its configuration files."""
    is_wanted: bool = False
    """Whether the user wanted it so; then there is nothing to warn of."""

    def __str__(self) -> str:
        """Return "the plugin 'foo' of package foo-bar 1.2 could not be loaded: ..."."""
        return f"{self.origin} {self.cause}"

    def explains(self, kind: Kind, name: str) -> bool:
        """Tell whether the plugin would have offered the name."""
        return name == self.origin.plugin or (kind.group, name) in self.names


class Registry:
    """What the installed plugins offer.

    A plugin that cannot be used is a warning here. It becomes an error when something is asked for that it offers.

    Args:
        offers: Everything that is offered, by plugins for any contract version.
        failures: The plugins that could not be used.
        manager: The pluggy manager of the plugins that can.
    """

    def __init__(self, offers: Sequence[Offer], failures: Sequence[Failure], manager: pluggy.PluginManager) -> None:
        self._offers: dict[Kind, dict[str, list[Offer]]] = {kind: {} for kind in Kind}
        for offer in offers:
            self._offers[offer.kind].setdefault(offer.spec.name, []).append(offer)
        self._failures = tuple(failures)
        self._manager = manager

    @property
    def hook(self) -> pluggy.HookRelay:
        """The hooks of all plugins, to be called for all of them at once: `registry.hook.rheos_report(...)`."""
        return self._manager.hook

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each plugin, offer or name that cannot be used."""
        failures = [str(failure) for failure in self._failures if not failure.is_wanted]
        problems = [self._problem(kind, name) for kind in Kind for name in self._offers[kind]]
        return (*failures, *filter(None, problems))

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The plugins that could not be used, also those that the user disabled."""
        return self._failures

    def algorithm(self, name: str) -> AlgorithmSpec:
        """Return the algorithm of a name.

        Raises:
            UnknownName: if nothing offers it; the message gives near misses, or the package to install.
            PluginError: if it is offered and cannot be used.
        """
        return self._find(Kind.ALGORITHM, name, AlgorithmSpec)

    def backend(self, name: str) -> BackendSpec:
        """Return the backend of a name; raises as `algorithm` does."""
        return self._find(Kind.BACKEND, name, BackendSpec)

    def executor(self, name: str) -> ExecutorSpec:
        """Return the executor of a name; raises as `algorithm` does."""
        return self._find(Kind.EXECUTOR, name, ExecutorSpec)

    def environment(self, name: str) -> EnvironmentSpec:
        """Return the source of environments of a name; raises as `algorithm` does."""
        return self._find(Kind.ENVIRONMENT, name, EnvironmentSpec)

    def logger(self, name: str) -> LoggerSpec:
        """Return the logger of a name; raises as `algorithm` does."""
        return self._find(Kind.LOGGER, name, LoggerSpec)

    def names(self, kind: Kind | str) -> tuple[str, ...]:
        """Return the names of a kind that can be used, sorted."""
        kind = Kind(kind)
        return tuple(name for name in sorted(self._offers[kind]) if not self._problem(kind, name))

    def specs(self, kind: Kind | str) -> tuple[Spec, ...]:
        """Return the specs of a kind that can be used, by name."""
        return tuple(offer.spec for offer in self.offers(kind))

    def offers(self, kind: Kind | str) -> tuple[Offer, ...]:
        """Return the specs of a kind that can be used, by name, with the plugins that offer them."""
        kind = Kind(kind)
        return tuple(self._offers[kind][name][0] for name in self.names(kind))

    def absence(self, kind: Kind, name: str, choices: Sequence[str] | None = None) -> UnknownName | PluginError:
        """Return the error that explains why there is no such name: what to type, to install, or to mend.

        Args:
            kind: What was asked for.
            name: The name that nothing offers.
            choices: The names that users can type instead, where those are not the names of the kind.
        """
        explained = self.explained_absence(kind, name)
        if explained:
            return explained
        known = self.names(kind) if choices is None else choices
        message = f"No {kind} {name!r}. {did_you_mean(name, known)}Installed: {', '.join(known) or 'none'}."
        broken = [str(failure) for failure in self._failures if not failure.is_wanted]
        return UnknownName(f"{message} Not usable: {'; '.join(broken)}." if broken else message)

    def explained_absence(self, kind: Kind, name: str) -> UnknownName | PluginError | None:
        """Return why a name cannot be used, where that is known: broken, disabled, ambiguous, or not installed."""
        if name in self._offers[kind]:
            problem = self._problem(kind, name)
            return PluginError(f"{problem}.") if problem else None
        failure = next((failure for failure in self._failures if failure.explains(kind, name)), None)
        if failure:
            return PluginError(f"No {kind} {name!r}: {failure}.")
        package = PROVIDERS[kind].get(name)
        if package:
            return UnknownName(
                f"No {kind} {name!r} is installed. It is provided by {package}: "
                f"pip install {'--upgrade ' if self._is_installed(package) else ''}{package}"
            )
        return None

    def _find(self, kind: Kind, name: str, spec_class: type[S]) -> S:
        if name not in self._offers[kind] or self._problem(kind, name):
            raise self.absence(kind, name)
        spec = self._offers[kind][name][0].spec
        assert isinstance(spec, spec_class)
        return spec

    def _problem(self, kind: Kind, name: str) -> str | None:
        """Return why a name that is offered cannot be used, or None where it can."""
        offers = self._offers[kind][name]
        if len(offers) > 1:
            origins = [offer.origin for offer in offers]
            return (
                f"Two packages offer the {kind} {name!r}: {' and '.join(map(str, origins))}; uninstall one, "
                f"or set RHEOS_DISABLED_PLUGINS={origins[-1].package}"
            )
        origin, made_for = offers[0].origin, offers[0].spec.contract
        if made_for == CONTRACT_VERSION:
            return None
        outdated = "rheos-core" if made_for > CONTRACT_VERSION else origin.package
        return (
            f"The {kind} {name!r} of package {origin.package} {origin.version} is made for version {made_for} of the "
            f"plugin contract, this rheos-core has version {CONTRACT_VERSION}: pip install --upgrade {outdated}"
        )

    def _is_installed(self, package: str) -> bool:
        origins = [failure.origin for failure in self._failures]
        origins += [offer.origin for names in self._offers.values() for offers in names.values() for offer in offers]
        return any(origin.package == package for origin in origins)
