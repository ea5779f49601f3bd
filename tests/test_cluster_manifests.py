"""The cluster files of the documentation are what Ray and KubeRay take, and have room for the runs that they show."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from jsonschema import Draft7Validator

from rheos.configuration.run_config import RunConfig
from rheos.plugins import load_registry
from rheos_cli.composition import compose

autoscaler = pytest.importorskip("ray.autoscaler._private.util")
kuberay = pytest.importorskip("ray.autoscaler._private.kuberay.autoscaling_config")
scripts = pytest.importorskip("ray.scripts.scripts")

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "run-on-a-cluster.md"
FOLDER = PAGE.parent / "cluster"
CLUSTER = yaml.safe_load((FOLDER / "ray-cluster.yaml").read_text(encoding="utf-8"))
CLAIM, JOB = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text(encoding="utf-8"))


# The schemas: every key that may stand there; others are refused, but for names that users choose.


def closed(required: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required.split(), "properties": properties}


def listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": items}


TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
FLAG = {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
QUANTITY = {"type": ["string", "integer"], "pattern": r"^[0-9]+(\.[0-9]+)?(m|[KMGT]i?)?$", "minimum": 0}
QUANTITIES = {
    "type": "object",
    "propertyNames": {"pattern": r"^(cpu|memory|storage|ephemeral-storage|[a-z.]+\.[a-z]+/[a-z]+)$"},
    "additionalProperties": QUANTITY,
}
METADATA = closed("name", {"name": TEXT, "namespace": TEXT, "labels": TEXTS, "annotations": TEXTS})

# What Ray's own schema leaves open: the arguments of boto3's `create_instances`, and the settings of a provider.
DISK = closed(
    "DeviceName Ebs", {"DeviceName": TEXT, "Ebs": closed("VolumeSize", {"VolumeSize": COUNT, "VolumeType": TEXT})}
)
AWS_NODE = closed(
    "InstanceType",
    {
        "InstanceType": TEXT,
        "ImageId": TEXT,
        "BlockDeviceMappings": listed(DISK),
        "InstanceMarketOptions": closed("MarketType", {"MarketType": {"enum": ["spot"]}}),
    },
)
AWS_PROVIDER = closed(
    "type region",
    {"type": {"const": "aws"}, "region": TEXT, "availability_zone": TEXT, "cache_stopped_nodes": FLAG},
)

# The fields of Kubernetes and of KubeRay's ray.io/v1 (1.5.1) that are in use, as the API's reference gives them.
CONTAINER = closed(
    "name image resources",
    {
        "name": TEXT,
        "image": TEXT,
        "env": listed(closed("name value", {"name": TEXT, "value": TEXT})),
        "resources": closed("limits", {"requests": QUANTITIES, "limits": QUANTITIES}),
        "volumeMounts": listed(closed("name mountPath", {"name": TEXT, "mountPath": TEXT, "readOnly": FLAG})),
    },
)
VOLUME = closed(
    "name persistentVolumeClaim", {"name": TEXT, "persistentVolumeClaim": closed("claimName", {"claimName": TEXT})}
)
POD = closed(
    "spec",
    {
        "metadata": METADATA,
        "spec": closed(
            "containers",
            {
                "containers": listed(CONTAINER),
                "volumes": listed(VOLUME),
                "securityContext": closed("", {"fsGroup": COUNT, "runAsUser": COUNT}),
                "nodeSelector": TEXTS,
            },
        ),
    },
)
RAY_START = {
    "type": "object",
    "propertyNames": {"enum": sorted(name.lstrip("-") for option in scripts.start.params for name in option.opts)},
    "additionalProperties": {"type": "string"},
}
HEAD = closed("rayStartParams template", {"rayStartParams": RAY_START, "template": POD})
WORKERS = closed(
    "groupName minReplicas maxReplicas rayStartParams template",
    {
        "groupName": TEXT,
        "replicas": COUNT,
        "minReplicas": COUNT,
        "maxReplicas": COUNT,
        "rayStartParams": RAY_START,
        "template": POD,
    },
)
RAY_CLUSTER = closed(
    "rayVersion headGroupSpec workerGroupSpecs",
    {
        "rayVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "authOptions": closed("mode", {"mode": {"enum": ["disabled", "token"]}}),
        "enableInTreeAutoscaling": FLAG,
        "autoscalerOptions": closed(
            "",
            {
                "idleTimeoutSeconds": COUNT,
                "upscalingMode": {"enum": ["Default", "Aggressive", "Conservative"]},
                "version": {"enum": ["v1", "v2"]},
            },
        ),
        "headGroupSpec": HEAD,
        "workerGroupSpecs": listed(WORKERS),
    },
)
RAY_JOB = closed(
    "apiVersion kind metadata spec",
    {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayJob"},
        "metadata": METADATA,
        "spec": closed(
            "entrypoint rayClusterSpec",
            {
                "entrypoint": TEXT,
                "backoffLimit": COUNT,
                "shutdownAfterJobFinishes": FLAG,
                "ttlSecondsAfterFinished": COUNT,
                "rayClusterSpec": RAY_CLUSTER,
            },
        ),
    },
)
VOLUME_CLAIM = closed(
    "apiVersion kind metadata spec",
    {
        "apiVersion": {"const": "v1"},
        "kind": {"const": "PersistentVolumeClaim"},
        "metadata": METADATA,
        "spec": closed(
            "accessModes resources",
            {
                "accessModes": listed({"enum": ["ReadWriteOnce", "ReadWriteMany"]}),
                "resources": closed("requests", {"requests": QUANTITIES}),
                "storageClassName": TEXT,
            },
        ),
    },
)


RAYS_OWN = json.loads((Path(autoscaler.ray.autoscaler.__file__).parent / "ray-schema.json").read_text(encoding="utf-8"))
NEEDED = {"type": "object", "required": ["available_node_types", "head_node_type", "docker"]}
REFUSALS = (jsonschema.ValidationError, ValueError)


def check(value: Any, *schemas: dict[str, Any]) -> None:
    """Raise what is wrong with a value, if something is."""
    for schema in schemas:
        Draft7Validator(schema).validate(value)


def check_cluster(config: Any) -> dict[str, Any]:
    """Check the file, then have Ray fill in its defaults and check it once more, as `ray up` does; return that."""
    check(config, RAYS_OWN, NEEDED)
    check(config["provider"], AWS_PROVIDER)
    check(config["docker"], closed("image container_name run_options", RAYS_OWN["properties"]["docker"]["properties"]))
    for node in config["available_node_types"].values():
        check(node["node_config"], AWS_NODE)
    filled: dict[str, Any] = autoscaler.prepare_config(copy.deepcopy(config))
    autoscaler.validate_config(filled)
    return filled


def check_job(manifest: Any) -> dict[str, Any]:
    """Check the job, and return what Ray's autoscaler reads out of its cluster."""
    check(manifest, RAY_JOB)
    cluster = {"metadata": {"name": "rheos", "namespace": "default"}, "spec": manifest["spec"]["rayClusterSpec"]}
    derived: dict[str, Any] = kuberay._derive_autoscaling_config_from_ray_cr(cluster)
    return derived


def check_claim(manifest: Any) -> None:
    check(manifest, VOLUME_CLAIM)


def test_the_cluster_file_is_one_that_ray_takes():
    filled = check_cluster(CLUSTER)

    assert 8 == filled["available_node_types"]["rollouts"]["max_workers"]
    assert any("--autoscaling-config" in command for command in filled["head_start_ray_commands"])


def test_the_manifest_is_one_that_kuberay_takes_and_that_rays_autoscaler_reads():
    check_claim(CLAIM)
    derived = check_job(JOB)

    assert {"CPU": 0, "memory": 16 * 2**30} == derived["available_node_types"]["headgroup"]["resources"]
    assert 1 == derived["available_node_types"]["learner"]["resources"]["GPU"]


# That the checks can fail


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path of everything in a document."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def parent_of(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document


def misspelt(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    parent = parent_of(changed, path)
    parent[f"{path[-1]}_"] = parent.pop(path[-1])
    return changed


def of_another_type(document: Any, path: tuple[Any, ...]) -> Any:
    """Put a list where there is anything else, and a number where there is a list."""
    changed = copy.deepcopy(document)
    parent = parent_of(changed, path)
    parent[path[-1]] = 1.5 if isinstance(parent[path[-1]], list) else [{}]
    return changed


NAMED_BY_USERS = r"^/(file_mounts/.*|available_node_types/[^/]+(/resources/[^/]+)?)$"
"""Keys that may have any name: paths, node types, what these have."""
LEFT_OPEN_BY_RAY = r"^/(file_mounts/|docker/run_options/)"
"""What no schema looks into."""


def mutations(document: Any) -> Iterator[tuple[str, Any]]:
    """Return the document with one mistake, for each that is to be refused, and where it is."""
    for path in places(document):
        where = "/" + "/".join(map(str, path))
        if isinstance(path[-1], str) and not re.search(NAMED_BY_USERS, where):
            yield f"{where} misspelt", misspelt(document, path)
        if not re.search(LEFT_OPEN_BY_RAY, where):
            yield f"{where} of another type", of_another_type(document, path)


def is_refused(document: Any, check_it: Callable[[Any], Any]) -> bool:
    try:
        check_it(document)
    except REFUSALS:
        return True
    return False


@pytest.mark.parametrize(
    ("document", "check_it"),
    [(CLUSTER, check_cluster), (JOB, check_job), (CLAIM, check_claim)],
    ids=["cluster", "job", "claim"],
)
def test_a_misspelt_key_and_a_wrong_type_are_refused_wherever_they_are(document: Any, check_it: Callable[[Any], Any]):
    mistakes = list(mutations(document))

    assert len(mistakes) > 15
    assert [] == [where for where, mistaken in mistakes if not is_refused(mistaken, check_it)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("head_node_type",), "haed"),
        (("max_workers",), -1),
        (("available_node_types", "rollouts", "min_workers"), 9),
        (("available_node_types", "rollouts", "resources", "CPU"), 0.5),
        (("provider", "type"), "kuberay"),
    ],
    ids=str,
)
def test_a_value_that_makes_no_sense_in_the_cluster_file_is_refused(path: tuple[str, ...], value: Any):
    changed = copy.deepcopy(CLUSTER)
    parent_of(changed, path)[path[-1]] = value

    with pytest.raises(REFUSALS):
        check_cluster(changed)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("apiVersion",), "ray.io/v1alpha1"),
        (("spec", "rayClusterSpec", "rayVersion"), "2.60"),
        (("spec", "rayClusterSpec", "authOptions", "mode"), "tokens"),
        (("spec", "rayClusterSpec", "headGroupSpec", "rayStartParams", "num-cpus"), 0),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "maxReplicas"), "1"),
    ],
    ids=str,
)
def test_a_value_that_makes_no_sense_in_the_manifest_is_refused(path: tuple[Any, ...], value: Any):
    changed = copy.deepcopy(JOB)
    parent_of(changed, path)[path[-1]] = value

    with pytest.raises(REFUSALS):
        check_job(changed)


# The runs that are shown


def settings_of(command: str) -> RunConfig:
    """Return the settings of a `rheos train` command, with every name and value checked."""
    first, second, *words = shlex.split(command, comments=True)
    assert ["rheos", "train"] == [first, second]
    return RunConfig.from_mapping(compose(words), load_registry())


@pytest.fixture
def commands(read_page: Callable[[Path], Any]) -> list[str]:
    """Return the `rheos train` commands of the page: alone, or as what `ray exec` is to run; but no multirun."""
    lines = "".join(read_page(PAGE).in_language("")).replace("\\\n", "").splitlines()
    found = [line[line.index("rheos train") :].rstrip("'") for line in lines if re.search("(^|')rheos train", line)]
    return [command for command in found if " -m " not in command]


def room_for(node_types: dict[str, Any], resource: str) -> float:
    """Return how much of a resource a cluster has once it has grown as far as it may; the head is there once."""
    return sum((node["max_workers"] or 1) * node["resources"].get(resource, 0) for node in node_types.values())


def test_every_command_of_the_page_is_one_that_the_command_line_takes(commands: list[str]):
    assert len(commands) >= 5
    assert {"ray"} == {settings_of(command).executor.name for command in commands}


def test_the_cluster_has_room_for_the_run_that_the_page_starts_on_it(commands: list[str]):
    (command,) = [command for command in commands if "run_dir=/home/ray/runs/" in command]
    executor: Any = settings_of(command).executor
    node_types = check_cluster(CLUSTER)["available_node_types"]

    assert executor.workers * executor.worker.num_cpus <= room_for(node_types, "CPU")
    assert executor.start_timeout_s >= 600  # a machine takes minutes to come


def test_the_cluster_of_the_job_has_room_for_its_run():
    executor: Any = settings_of(JOB["spec"]["entrypoint"]).executor
    node_types = check_job(JOB)["available_node_types"]

    assert executor.workers * executor.worker.num_cpus <= room_for({"rollouts": node_types["rollouts"]}, "CPU")
    assert executor.learner.num_gpus <= node_types["learner"]["resources"]["GPU"]
    assert executor.learner.num_cpus <= node_types["learner"]["resources"]["CPU"]
    assert executor.start_timeout_s >= 600


def test_all_machines_have_one_image_of_one_version_of_ray():
    spec = JOB["spec"]["rayClusterSpec"]
    pods = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    images = {container["image"] for pod in pods for container in pod["template"]["spec"]["containers"]}
    page = PAGE.read_text(encoding="utf-8")
    versions = re.findall(r"^FROM rayproject/ray:([\d.]+)-|ray\[default\]==([\d.]+)", page, re.MULTILINE)

    assert {CLUSTER["docker"]["image"]} == images
    assert [spec["rayVersion"]] * 2 == [image or client for image, client in versions]
