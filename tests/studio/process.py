"""A studio that can be asked over a socket: in a thread, or in a process that can be killed."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import uvicorn

from fedlore.studio import Workspace, find_workplace, make_studio


@contextmanager
def opened(folder, *, port=0, token=None, **about):
    """The address of a running studio, and what stops it; stopped at the end, whatever happened."""
    app = make_studio(Workspace(find_workplace(folder, **about)), token=token)
    door = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()

    def stop():
        server.should_exit = True
        thread.join(20)
        door.close()

    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{door.getsockname()[1]}/", stop
    finally:
        stop()


@contextmanager
def ended(folder):
    """Starts `fedlore studio` as a process of its own, always at one address; `kill` ends it."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    running = []

    def start():
        command = [sys.executable, "-m", "fedlore", "studio", folder, "--port", str(port)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert "127.0.0.1" in running[-1].stdout.readline()
        return f"http://127.0.0.1:{port}/"

    def kill():
        while running:
            process = running.pop()
            process.kill()
            process.communicate()

    start.kill = kill
    try:
        yield start
    finally:
        kill()
