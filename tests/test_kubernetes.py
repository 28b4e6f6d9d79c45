"""The example of several machines: the manifest's structure, and a rehearsal with three processes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from tests.support import Simulate

EXAMPLE = Path(__file__).parents[1] / "examples" / "kubernetes"
PROMPTS = Path(__file__).parent / "aiperf" / "speed_bench_8.jsonl"


def documents() -> dict[str, dict[str, Any]]:
    found = list(yaml.safe_load_all((EXAMPLE / "job.yaml").read_text()))
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in found}


def env(job: dict[str, Any]) -> dict[str, str]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry["value"] for entry in container["env"]}


# What the API's schema (batch/v1 Job, v1 PersistentVolumeClaim) knows of the fields that may stand at each place.
JOB = {"backoffLimit", "completionMode", "completions", "parallelism", "template", "ttlSecondsAfterFinished"}
POD = {"restartPolicy", "containers", "volumes", "securityContext", "nodeSelector"}
CONTAINER = {"name", "image", "command", "args", "env", "resources", "volumeMounts", "imagePullPolicy"}
VOLUMES = {"persistentVolumeClaim": {"claimName", "readOnly"}, "configMap": {"name", "items", "defaultMode"}}


def test_the_manifest_is_one_that_the_api_takes() -> None:
    found = documents()
    assert set(found) == {
        "PersistentVolumeClaim/spec-profile-runs",
        "Job/spec-profile-clients",
        "Job/spec-profile-report",
    }
    claim = found.pop("PersistentVolumeClaim/spec-profile-runs")
    assert claim["apiVersion"] == "v1"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert isinstance(claim["spec"]["resources"]["requests"]["storage"], str)
    for job in found.values():
        assert job["apiVersion"] == "batch/v1"
        assert set(job) == {"apiVersion", "kind", "metadata", "spec"}
        assert set(job["spec"]) <= JOB
        assert set(job["spec"]["template"]) == {"metadata", "spec"}
        pod = job["spec"]["template"]["spec"]
        assert set(pod) <= POD
        assert pod["restartPolicy"] == "Never"
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for volume in volumes.values():
            (kind,) = volume.keys() - {"name"}
            assert set(volume[kind]) <= VOLUMES[kind]
        (container,) = pod["containers"]
        assert set(container) <= CONTAINER
        assert all(isinstance(word, str) for word in container["command"])
        # The API refuses numbers where a variable's value is to be text.
        assert all(set(entry) == {"name", "value"} and isinstance(entry["value"], str) for entry in container["env"])
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        assert all(mount["mountPath"].startswith("/") for mount in container["volumeMounts"])


def test_the_manifest_counts_its_clients_alike() -> None:
    clients, report = documents()["Job/spec-profile-clients"], documents()["Job/spec-profile-report"]
    assert clients["spec"]["completionMode"] == "Indexed"
    number = clients["spec"]["completions"]
    assert clients["spec"]["parallelism"] == number
    assert env(clients)["CLIENTS"] == env(report)["CLIENTS"] == str(number)
    assert env(clients)["RUNS"] == env(report)["RUNS"]


def test_a_rehearsal_equals_one_client(simulate: Simulate, tmp_path: Path) -> None:
    simulator = simulate("vllm", seed=11)
    options = "--temperature 0 --max-tokens 40 --use-server-token-count"
    ran = subprocess.run(
        ["sh", str(EXAMPLE / "rehearse.sh"), simulator.url, "simulated-model", str(PROMPTS), str(tmp_path / "runs")],
        env={**os.environ, "OPTIONS": options, "PATH": sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "8 of 8 succeeded" in ran.stdout
    one = ["--url", simulator.url, "--input-file", str(PROMPTS), "--artifact-dir", str(tmp_path / "one")]
    assert CliRunner().invoke(app, [*one, *options.split()]).exit_code == 0
    matrices = []
    for path in ("runs", "one"):
        result = CliRunner().invoke(app, ["report", str(tmp_path / path), "--pool", "--format", "csv"])
        (row,) = csv.DictReader(io.StringIO(result.stdout))
        del row["Run"]
        matrices.append(row)
    assert matrices[0] == matrices[1]
    pooled = json.loads((tmp_path / "runs" / "pooled.json").read_text())["pooled_runs"][0]
    single = json.loads((tmp_path / "one" / "profile_export_aiperf.json").read_text())
    # The acceptance of a seeded drafter is the same whoever asks; the times are not.
    for tag in ("spec_decode_acceptance_length", "spec_decode_steps", "output_sequence_length", "total_draft_tokens"):
        assert pooled[tag] == single[tag], tag
    histogram = "pooled_spec_decode_acceptance_histogram"
    assert pooled[histogram] == single[histogram]
