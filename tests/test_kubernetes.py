"""The example of several machines: the manifest's structure, and a rehearsal with three processes."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from aiperf_spec.config.choices import ArrivalPattern
from aiperf_spec.config.several_clients import start_time_ns
from aiperf_spec.workload.arrivals import arrivals
from tests.support import Simulate

EXAMPLE = Path(__file__).parents[1] / "examples" / "kubernetes"
PROJECT = EXAMPLE.parents[1] / "pyproject.toml"
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


def test_the_image_is_the_one_that_the_jobs_name() -> None:
    text = (EXAMPLE / "Containerfile").read_text()
    (tag,) = re.findall(r"docker build -f examples/kubernetes/Containerfile -t (\S+) \.$", text, re.M)
    for name, job in documents().items():
        if name.startswith("Job/"):
            pod = job["spec"]["template"]["spec"]
            assert [container["image"] for container in pod["containers"]] == [tag]
            (user,) = re.findall(r"^USER (\d+):\d+$", text, re.M)
            assert pod["securityContext"] == {"runAsNonRoot": True, "runAsUser": int(user), "fsGroup": int(user)}
    copied = [word for line in re.findall(r"^COPY (.+) \S+$", text, re.M) for word in line.split()]
    # What the build of a wheel reads, and nothing else: neither tests nor what a clone has lying about.
    assert copied == ["pyproject.toml", "README.md", "LICENSE", "aiperf_spec"]
    assert all((EXAMPLE.parents[1] / path).exists() for path in copied)
    python = re.findall(r"^FROM python:3\.(\d+)-slim", text, re.M)
    assert len(python) == 2
    assert all(f"Programming Language :: Python :: 3.{minor}" in PROJECT.read_text() for minor in python)


Sent = list[tuple[Any, ...]]


def sent_by(folder: Path) -> tuple[Sent, Sent]:
    """Return the bodies that clients sent, and when each was due in us after the start, by the run's numbers."""
    bodies, due = [], []
    for path in folder.rglob("profile_export_raw.jsonl"):
        for line in path.read_bytes().splitlines():
            found = json.loads(line)
            bodies.append((found["metadata"]["session_num"], found["payload"]))
    starts = []
    for path in folder.rglob("profile_export.jsonl"):
        summary = json.loads((path.parent / "profile_export_aiperf.json").read_text())
        start = datetime.fromisoformat(summary["spec_profile"]["client"]["start_at"])
        starts.append(start)
        for line in path.read_bytes().splitlines():
            found = json.loads(line)
            sent_ns = found["metadata"]["request_start_ns"] - start_time_ns(start)
            late_us = found["metrics"]["schedule_lag"]["value"] * 1000
            due.append((found["metadata"]["session_num"], round(sent_ns / 1000 - late_us)))
    assert len(set(starts)) == 1
    return sorted(bodies, key=lambda each: each[0]), sorted(due)


def rehearse(*words: str, options: str) -> subprocess.CompletedProcess[str]:
    path = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]
    # How long three clients take until they are ready depends on the machine.
    for seconds in ("6", "30"):
        env = {**os.environ, "OPTIONS": options, "PATH": path, "START_IN": seconds}
        command = ["sh", str(EXAMPLE / "rehearse.sh"), *words]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
        logs = [log.read_text() for log in Path(words[-1]).glob("*.log")]
        if not any("passed" in log for log in logs):
            break
    return ran


def test_a_rehearsal_equals_one_client(simulate: Simulate, tmp_path: Path) -> None:
    simulator = simulate("vllm", seed=11)
    options = "--temperature 0 --max-tokens 40 --export-level raw --dataset-sampling-strategy shuffle"
    options += " --request-rate 30 --request-count 24"
    ran = rehearse(simulator.url, "simulated-model", str(PROMPTS), str(tmp_path / "runs"), options=options)
    assert ran.returncode == 0, ran.stderr
    assert "24 of 24 succeeded" in ran.stdout
    logs = [log.read_text() for log in (tmp_path / "runs").glob("*.log")]
    assert all(re.search(r"^profiling starts at 20\S+\+00:00, in \d+ s$", log, re.M) for log in logs)
    assert "30 requests/s, poisson\n" in "\n".join(line.rstrip() for line in ran.stdout.splitlines())
    assert "3 clients as one run, all shares of 3, 8 + 8 + 8 = 24 requests" in ran.stdout
    one = ["--url", simulator.url, "--input-file", str(PROMPTS), "--artifact-dir", str(tmp_path / "one" / "run")]
    for seconds in (3, 30):
        result = CliRunner().invoke(app, [*one, "--start-at", str(int(time.time()) + seconds), *options.split()])
        if "passed" not in result.stderr:
            break
    assert result.exit_code == 0
    bodies, due = sent_by(tmp_path / "runs")
    bodies_of_one, due_of_one = sent_by(tmp_path / "one")
    sys.stdout.write("\nrequest  client  due of 3 clients (us)  due of 1 client (us)  same body\n")
    for (number, at), (_, at_of_one), (_, body), (_, body_of_one) in zip(
        due, due_of_one, bodies, bodies_of_one, strict=True
    ):
        sys.stdout.write(f"{number:7}  {number % 3:6}  {at:21}  {at_of_one:20}  {body == body_of_one}\n")
    assert [number for number, _ in due] == list(range(24))
    assert bodies == bodies_of_one
    # Lags are kept in ms as floats, of which the last digits are rounded.
    assert all(abs(at - at_of_one) <= 1 for (_, at), (_, at_of_one) in zip(due, due_of_one, strict=True))
    schedule = [round(each * 1e6) for each in arrivals(30, ArrivalPattern.POISSON, 0, 24)]
    assert all(abs(at - planned) <= 1 for (_, at), planned in zip(due, schedule, strict=True))
    matrices = []
    for path in ("runs", "one"):
        result = CliRunner().invoke(app, ["report", str(tmp_path / path), "--pool", "--format", "csv"])
        (row,) = csv.DictReader(io.StringIO(result.stdout))
        del row["Run"]
        matrices.append(row)
    assert matrices[0] == matrices[1]
    pooled = json.loads((tmp_path / "runs" / "pooled.json").read_text())["pooled_runs"][0]
    single = json.loads((tmp_path / "one" / "run" / "profile_export_aiperf.json").read_text())
    # The acceptance of a seeded drafter is the same whoever asks; the times are not.
    for tag in ("spec_decode_acceptance_length", "spec_decode_steps", "output_sequence_length", "total_draft_tokens"):
        assert pooled[tag] == single[tag], tag
    histogram = "pooled_spec_decode_acceptance_histogram"
    assert pooled[histogram] == single[histogram]
    assert [client["clock"]["correction_ms"] for client in pooled["clients"]["each"]] == [0, 0, 0]
