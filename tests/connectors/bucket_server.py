"""A server of S3, in a process and an environment of its own; it can be stopped, and loses nothing by that.

It reads orders as JSON lines and answers each with a JSON line. What it does is written at `answer_order`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterable
from typing import Any

import boto3
import moto.core.authorization
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

BUCKET = "lake"
_EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None: ...


class BucketServer:
    """moto, one change at a time: two that write the same object only if it is not there do not both do it."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._changing = threading.Lock()
        self.requests: list[str] = []
        self.left: int | None = None  # how many more requests are answered
        self.lost = ""  # in the path of a PUT that is carried out, and not answered
        self._server: BaseWSGIServer | None = None
        self.port = 0

    def start(self) -> None:
        self.left = None
        self._server = make_server("127.0.0.1", self.port, self, threaded=True, request_handler=_Silent)
        self.port = self._server.port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if self.left is not None:
            if self.left <= 0:
                return self._hang_up(environ)
            self.left -= 1
        self.requests.append(f"{method} {path}?{environ.get('QUERY_STRING', '')}")
        if method in ("GET", "HEAD"):
            return self._app(environ, start_response)
        with self._changing:
            answer = list(self._app(environ, start_response))
        if self.lost and method == "PUT" and self.lost in path:
            self.lost = ""
            return self._hang_up(environ)
        return answer

    def _hang_up(self, environ: dict[str, Any]) -> Iterable[bytes]:
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError


def answer_order(server: BucketServer, order: str, given: str) -> Any:
    match order:
        case "stop":
            server.stop()
        case "start":
            server.start()
        case "requests":  # those since the last time that somebody asked
            found, server.requests = server.requests, []
            return found
        case "stop after":  # so many requests; the next ones get no answer until it is started again
            server.left = int(given)
        case "restart":
            server.left = None
        case "lose":
            server.lost = given
        case "check rights":
            moto.core.authorization.settings.INITIAL_NO_AUTH_ACTION_COUNT = float(given)
    return None


def make_key(port: int) -> tuple[str, str]:
    """The bucket, and the key of somebody who may use it."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": "root"}
    common: dict[str, Any] = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
    boto3.client("s3", **common).create_bucket(Bucket=BUCKET)
    iam = boto3.client("iam", **common)
    iam.create_user(UserName="trickle")
    iam.put_user_policy(UserName="trickle", PolicyName="all", PolicyDocument=json.dumps(_EVERYTHING))
    made = iam.create_access_key(UserName="trickle")["AccessKey"]
    return made["AccessKeyId"], made["SecretAccessKey"]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = BucketServer()
    server.start()
    key, secret = make_key(server.port)
    print(json.dumps({"port": server.port, "key": key, "secret": secret}), file=answers, flush=True)
    for line in sys.stdin:
        order, given = json.loads(line)
        print(json.dumps(answer_order(server, order, given)), file=answers, flush=True)


if __name__ == "__main__":
    main()
