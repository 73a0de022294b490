# SPDX-License-Identifier: Apache-2.0
"""What every Python test of peng starts from: the binary, the default model, a running server.

Environment (set by `make test`): PENG_BINARY, the peng to test; PENG_TEST_MODEL, the file of the default model.
"""
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_SECONDS = 60

# Taken out of the environment: peng would warn of variables that it does not know.
BINARY = os.environ.pop("PENG_BINARY", None)
DEFAULT_MODEL = os.environ.pop("PENG_TEST_MODEL", None)


@pytest.fixture(scope="session")
def peng_binary() -> pathlib.Path:
    path = pathlib.Path(BINARY or ROOT / "build" / "bin" / "peng")
    assert path.exists(), f"{path} is not there; build it with `make build`"
    return path


@pytest.fixture(scope="session")
def default_model() -> pathlib.Path:
    path = DEFAULT_MODEL
    if not path:
        path = subprocess.run([ROOT / "scripts" / "get-model"], check=True, capture_output=True, text=True).stdout.strip()
    return pathlib.Path(path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One `peng serve` process. `url` has no trailing slash; `log()` is what it wrote to standard error."""

    def __init__(self, binary, model, arguments, log_path, environment):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = log_path
        command = [str(binary), "serve", str(model), "--host", "127.0.0.1", "--port", str(self.port), *map(str, arguments)]
        self._log_file = open(log_path, "wb")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log_file, stderr=self._log_file, env=environment
        )

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"peng serve ended with code {self.process.returncode}:\n{self.log()}")
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5) as reply:
                    if reply.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise AssertionError(f"peng serve was not ready after {START_SECONDS} s:\n{self.log()}")

    def stop(self, signal_number=signal.SIGTERM, timeout=30) -> int:
        """Sends a signal, waits, and returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log_file.close()
        return self.process.returncode


@pytest.fixture(scope="session")
def start_server(peng_binary, tmp_path_factory):
    """start_server(model, *arguments, ready=True, env={}, program=None) -> Server; all are stopped at the end of the session."""
    servers = []

    def start(model, *arguments, ready=True, env=None, program=None) -> Server:
        log_path = tmp_path_factory.mktemp("server") / "log.txt"
        # PENG_ variables are settings of peng: the tests' own would only be warned about.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENG_") or name == "PENG_HOME"}
        servers.append(Server(program or peng_binary, model, arguments, log_path, {**inherited, **(env or {})}))
        if ready:
            servers[-1].wait_until_ready()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def server(start_server, default_model) -> Server:
    """A server with the default model, shared by the tests that leave it as it was."""
    return start_server(default_model)
