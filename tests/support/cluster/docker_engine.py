"""A Docker engine for tests: whether there is one, and the base images that they need."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CONTEXT = ROOT / "tests" / "docker"
PYTHON_IMAGE = "python:3.11-slim"
ZOOKEEPER_IMAGE = "zookeeper:3.9"
PULL_LIMIT_S = 120
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_SETTINGS = Path("/etc/pip.conf")


def run(*command: str, limit_s: float = 600) -> str:
    """Run a command and return its standard output. Raises CalledProcessError, TimeoutExpired."""
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=limit_s
    ).stdout


def succeeds(*command: str, limit_s: float = 600) -> bool:
    try:
        run(*command, limit_s=limit_s)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def compose_command() -> list[str] | None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if succeeds(*command, "version"):
            return command
    return None


def why_not() -> str | None:
    """Return why no container can be run here; None if containers can be run."""
    if not succeeds("docker", "info"):
        return "no Docker engine responds"
    if compose_command() is None:
        return "docker-compose is not installed"
    missing = [image for image in (PYTHON_IMAGE, ZOOKEEPER_IMAGE) if not has_image(image)]
    if missing and (os.getuid() != 0 or not shutil.which("debootstrap")):
        return f"{', '.join(missing)} cannot be pulled, and there is no debootstrap to build them"
    return None


def has_image(image: str) -> bool:
    return succeeds("docker", "image", "inspect", image) or succeeds(
        "docker", "pull", "-q", image, limit_s=PULL_LIMIT_S
    )


def provide_images() -> None:
    """Provide the two base images under the names in the Docker files, and build ours on them."""
    if not has_image(PYTHON_IMAGE):
        build_python_image()
    if not has_image(ZOOKEEPER_IMAGE):
        build(ZOOKEEPER_IMAGE, "-f", str(CONTEXT / "zookeeper.Dockerfile"), str(CONTEXT))
    build("minikafka", ".")


def build(tag: str, *arguments: str) -> None:
    run("docker", "build", "--network", "host", "-t", tag, *arguments)


def build_python_image() -> None:
    """Build an image with Debian's Python and the settings with which this machine reaches its
    package index."""
    with tempfile.TemporaryDirectory() as directory:
        include = "--include=python3,python3-venv,ca-certificates"
        run("debootstrap", "--variant=minbase", include, "bookworm", directory)
        for file in (CERTIFICATES, PIP_SETTINGS):
            if file.exists():
                shutil.copy(file, directory + str(file))
        archive = subprocess.Popen(["tar", "-C", directory, "-c", "."], stdout=subprocess.PIPE)
        subprocess.run(
            ["docker", "import", "-", PYTHON_IMAGE],
            stdin=archive.stdout,
            check=True,
            capture_output=True,
        )
        if archive.wait() != 0:
            raise RuntimeError("the base image could not be packed")
