"""A studio that can be asked over a socket: in a thread, which is quickly there and gone."""

import socket
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
