# SPDX-License-Identifier: MIT
"""Certificates made by openssl(1), and a redis-server that also speaks TLS."""

import os
import shutil
import socket
import subprocess
import tempfile

import lib_redis

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def openssl(folder, *args):
    subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=folder)


def make_ca(folder, name):
    """NAME.pem and NAME.key in the folder."""
    openssl(folder, "req", "-x509", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.pem",
            "-days", "2", "-subj", f"/CN={name}")


def make_cert(folder, name, authority):
    """The same, for localhost, by a CA that is there."""
    openssl(folder, "req", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
            f"/CN={name}")
    with open(os.path.join(folder, "names"), "w", encoding="utf-8") as file:
        file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey",
            f"{authority}.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "2",
            "-extfile", "names")


class TlsRedis(lib_redis.Redis):
    """With ca.pem and server.pem in a folder of its own; the tests themselves use its socket."""

    def __init__(self, *options):
        self.certificates = tempfile.mkdtemp(prefix="quern-tls-")
        make_ca(self.certificates, "ca")
        make_cert(self.certificates, "server", "ca")
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        super().__init__("--bind", "127.0.0.1", "--tls-port", str(self.port),
                         "--tls-auth-clients", "no", "--tls-ca-cert-file", self.place("ca.pem"),
                         "--tls-cert-file", self.place("server.pem"),
                         "--tls-key-file", self.place("server.key"), *options)

    def place(self, name):
        return os.path.join(self.certificates, name)

    def url(self, user="", password=""):
        login = f"{user}:{password}@" if user else ""
        return f"rediss://{login}localhost:{self.port}?ca={self.place('ca.pem')}"

    def kill(self):
        super().kill()
        shutil.rmtree(self.certificates, ignore_errors=True)
